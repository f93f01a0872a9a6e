"""What is to be run, where, and who hears of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from discrete_meanflow.errors import InputError
from dmf_reproduction.engine.experiment import Cell, Json, Scale


@dataclass(frozen=True)
class Progress:
    """News of a cell, for whoever shows it."""

    cell: str
    iteration: int
    iterations: int
    loss: float
    metrics: dict[str, float]
    seconds: float


@dataclass(frozen=True)
class RunSpec:
    """What is to be run: the whole of it is in settings.json."""

    experiment: str
    seeds: tuple[int, ...]
    device: str
    scale: Scale
    out: Path
    jobs: int | None = None  # cells trained side by side; None: one per core, or 4 on a GPU
    only: str = ""  # train the cells whose name holds this text, leave the others
    data: Path | None = None  # the folder of the files that are read, where any are

    def __post_init__(self) -> None:
        if not self.seeds or len(set(self.seeds)) != len(self.seeds):
            given = " ".join(map(str, self.seeds)) or "none"
            raise InputError(f"--seeds: needs distinct seeds, got {given}")
        if any(not 0 <= seed < 2**63 for seed in self.seeds):
            raise InputError("--seeds: a seed is a whole number from 0 to 2^63 - 1")
        if self.jobs is not None and self.jobs < 1:
            raise InputError(f"--jobs: needs at least 1, got {self.jobs}")

    @property
    def command(self) -> str:
        seeds = " ".join(map(str, self.seeds))
        return (
            f"dmf reproduce {self.experiment} --seeds {seeds} --device {self.device} "
            f"--scale {self.scale.value}" + (" --data DATA" if self.data else "")
        )

    def unfinished(self, cells: Sequence[Cell]) -> list[Cell]:
        return [cell for cell in cells if not self.part(cell.name, ".json").exists()]

    def part(self, cell: str, suffix: str) -> Path:
        name = "".join(c if c.isalnum() or c in ".-" else "_" for c in cell)
        return self.out / "parts" / f"{name}{suffix}"


def cell_settings(order: RunSpec, cell: Cell) -> Json:
    return {
        "cell": cell.name,
        "seeds": list(order.seeds),
        "device": order.device,
        **cell.describe(),
    }


def run_folder(out: Path | None, name: str, several: bool) -> Path:
    """``out`` itself for one experiment, a folder inside it for several; default runs/NAME."""
    return out if out is not None and not several else (out or Path("runs")) / name
