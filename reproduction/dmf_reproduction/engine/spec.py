"""What to run, and where."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from discrete_meanflow.errors import InputError
from dmf_reproduction.engine.experiment import AnyCell, Json, Scale


@dataclass(frozen=True)
class RunSpec:
    """An experiment to run. settings.json records all of it."""

    experiment: str
    seeds: tuple[int, ...]
    device: str
    scale: Scale
    out: Path
    jobs: int | None = None  # cells trained in parallel; None: one per core, or 4 on a GPU
    only: str = ""  # train only the cells whose name contains this text
    data: Path | None = None  # folder of the input files, for experiments on real data

    def __post_init__(self) -> None:
        if not self.seeds or len(set(self.seeds)) != len(self.seeds):
            seeds = " ".join(map(str, self.seeds)) or "none"
            raise InputError(f"--seeds: needs distinct seeds, got {seeds}")
        if any(not 0 <= seed < 2**63 for seed in self.seeds):
            raise InputError("--seeds: a seed must be a whole number from 0 to 2^63 - 1")
        if self.jobs is not None and self.jobs < 1:
            raise InputError(f"--jobs must be at least 1, got {self.jobs}")

    @property
    def command(self) -> str:
        """The command line that repeats this run."""
        seeds = " ".join(map(str, self.seeds))
        return (
            f"dmf reproduce {self.experiment} --seeds {seeds} --device {self.device} "
            f"--scale {self.scale.value}" + (" --data DATA" if self.data else "")
        )

    def unfinished(self, cells: Sequence[AnyCell]) -> list[AnyCell]:
        return [cell for cell in cells if not self.part(cell.name, ".json").exists()]

    def part(self, cell: str, suffix: str) -> Path:
        """The file of a cell."""
        name = "".join(c if c.isalnum() or c in ".-" else "_" for c in cell)
        return self.out / "parts" / f"{name}{suffix}"


def cell_settings(spec: RunSpec, cell: AnyCell) -> Json:
    """What the checkpoints and measurements of a cell belong to."""
    return {
        "cell": cell.name,
        "seeds": list(spec.seeds),
        "device": spec.device,
        **cell.describe(),
    }


def run_folder(out: Path | None, name: str, several: bool) -> Path:
    """Return ``out`` for one experiment, a folder inside it for several; default runs/NAME."""
    return out if out is not None and not several else (out or Path("runs")) / name
