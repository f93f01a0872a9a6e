"""A folder of ``dmf reproduce``: claims, figures, trainings and exact values, read as JSON."""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from pathlib import Path
from typing import ClassVar, Self

from discrete_meanflow.model.grid import Cell
from discrete_meanflow.report.blocks import (
    DAMAGED,
    Block,
    Command,
    Details,
    Facts,
    Json,
    Note,
    Picture,
    Section,
    guarded,
    shortened,
    text_cell,
)
from discrete_meanflow.report.cells import cell_blocks, score_charts
from discrete_meanflow.report.pictures import figure_uri
from discrete_meanflow.report.sample_files import sample_file_blocks
from discrete_meanflow.report.sources import Source

MOST_CLAIMS = 1000  # of an experiment
ORIGIN = (
    *("device", "date", "versions", "seeds", "scale", "training_seconds", "wall_seconds"),
    "facts_device",
)
TOY = "Toy scale: this run checks that everything works; its numbers are not meaningful."


class Verdict(Enum):
    """Whether a claim holds."""

    yes = "yes"
    no = "no"
    unknown = "not recorded"


VERDICTS = {"True": Verdict.yes, "False": Verdict.no}  # by the text of the value: 1 is no verdict


@dataclass(frozen=True)
class Claim:
    """A statement, the paper's value, our value, and whether it holds."""

    text: str
    where: str
    paper: Cell
    ours: Cell
    verdict: Verdict

    @classmethod
    def of(cls, claim: Json) -> "Claim":
        return cls(
            shortened(str(claim["text"])),
            shortened(str(claim.get("where", ""))),
            text_cell(claim.get("paper")),
            text_cell(claim.get("ours")),
            VERDICTS.get(repr(claim.get("holds")), Verdict.unknown),
        )


@dataclass(frozen=True)
class Claims(Block):
    """The claims of an experiment."""

    template: ClassVar[str] = "claims.html"
    claims: tuple[Claim, ...]

    @property
    def shown(self) -> Sequence[Claim]:
        return self.claims[:MOST_CLAIMS]

    @property
    def omitted(self) -> int:
        return len(self.claims) - len(self.shown)


@dataclass(frozen=True)
class Tally:
    """How many claims hold."""

    name: str
    holds: int
    total: int

    @property
    def width(self) -> int:
        """The width of a bar of which all claims fill 200."""
        return round(200 * self.holds / max(1, self.total))


@dataclass(frozen=True)
class TallyRow:
    """An experiment in the summary."""

    name: str
    anchor: str
    tally: Tally
    where: str
    device: str
    date: str


@dataclass(frozen=True)
class Summary(Block):
    """How many claims hold in all, and in each experiment."""

    template: ClassVar[str] = "tally.html"
    tallies: tuple[Tally, ...]
    rows: tuple[TallyRow, ...]


class Reproduction(Source):
    """The claims of an experiment, and everything they were computed from."""

    heading = "Experiments"
    overview_heading = "Claims"

    @staticmethod
    def recognises(folder: Path) -> bool:
        return (folder / "results.json").is_file()

    @cached_property
    def results(self) -> Json:
        return self.record("results.json")

    @property
    def of_the_paper(self) -> bool:
        return self.results.get("of_the_paper") is True

    @property
    def rank(self) -> int:
        return int(not self.of_the_paper)

    @property
    def subtitle(self) -> str:
        return shortened(str(self.results.get("title", "an experiment of dmf reproduce")), 200)

    @cached_property
    def claims(self) -> tuple[Claim, ...]:
        return tuple(Claim.of(claim) for claim in self.results["claims"])

    @property
    def tally(self) -> Tally:
        """Damaged claims do not count: the part of this experiment says so."""
        claims: tuple[Claim, ...] = ()
        with contextlib.suppress(*DAMAGED):
            claims = self.claims
        holds = sum(claim.verdict is Verdict.yes for claim in claims)
        return Tally(self.name, holds, len(claims))

    def build(self) -> Iterator[Section]:
        yield Section.guarded("Run", self._run)
        yield Section.guarded("Claims", lambda: [Claims(self.claims)])
        if figures := sorted(self.folder.glob("*.png")):
            yield Section("Figures", tuple(guarded(lambda: map(_picture, figures))))
        if charts := tuple(guarded(lambda: score_charts(self.results.get("facts", {})))):
            yield Section("Scores", charts)
        yield Section.guarded("Records", self._records)
        if samples := tuple(sample_file_blocks(self.folder)):
            yield Section("Samples", samples)

    @classmethod
    def title(cls, folders: Sequence[Path]) -> str:
        return "Discrete MeanFlow: claims and measurements"

    @classmethod
    def overview(cls, sources: Sequence[Self]) -> Iterator[Block]:
        names = {
            True: "claims hold in the experiments of the paper",
            False: "of our own claims hold",
        }
        totals = []
        for flag, name in names.items():
            tallies = [source.tally for source in sources if source.of_the_paper is flag]
            holds, total = (sum(getattr(t, key) for t in tallies) for key in ("holds", "total"))
            if total:
                totals.append(Tally(name, holds, total))
        yield Summary(tuple(totals), tuple(source.row for source in sources))

    @property
    def row(self) -> TallyRow:
        texts = (
            shortened(str(self.results.get(key, "")), 150) for key in ("where", "device", "date")
        )
        return TallyRow(self.name, self.anchor, self.tally, *texts)

    def _run(self) -> Iterator[Block]:
        yield Command(shortened(str(self.results.get("command", "not recorded"))), "All numbers by")
        if self.results.get("scale") == "toy":
            yield Note(TOY, warning=True)
        origin = {key: self.results[key] for key in ("where", *ORIGIN) if key in self.results}
        yield Facts.of({key.replace("_", " "): value for key, value in origin.items()})

    def _records(self) -> Iterator[Block]:
        yield from cell_blocks(self.results.get("cells", {}))
        for title, key in (("Exact values and floors", "facts"), ("Settings", "settings")):
            if self.results.get(key):
                yield Details(title, (Facts.of(self.results[key]),))


def _picture(path: Path) -> Picture:
    return Picture(path.stem, figure_uri(path))
