"""A folder of benchmark records, as the scripts in ``bench/`` write them."""

from collections.abc import Iterator
from functools import cached_property, partial
from pathlib import Path

from discrete_meanflow.report.blocks import Block, Command, Details, Facts, Json, Section, guarded
from discrete_meanflow.report.sources import Source

FOLDER = "bench"
OTHER = "bench", "command"  # keys that stand elsewhere


class Benchmarks(Source):
    """Measurements of speed and memory, each with its command."""

    heading = "Benchmarks"
    overview_heading = "Benchmarks"

    @staticmethod
    def recognises(folder: Path) -> bool:
        return folder.name == FOLDER and any(folder.glob("*.json"))

    @cached_property
    def files(self) -> list[Path]:
        return sorted(self.folder.glob("*.json"))

    @property
    def subtitle(self) -> str:
        return f"{len(self.files):,} records of speed and memory"

    def build(self) -> Iterator[Section]:
        records = (
            Details(path.stem, tuple(guarded(partial(self._blocks, path)))) for path in self.files
        )
        yield Section("Records", tuple(records))

    def _blocks(self, path: Path) -> Iterator[Block]:
        record: Json = self.record(path.name)
        if "command" in record:
            yield Command(str(record["command"]), "Measured by")
        yield Facts.of({key: value for key, value in record.items() if key not in OTHER})
