"""What the page shows of a trained run: its samples, their probabilities and its evaluation."""

import math
import time
from pathlib import Path

import torch
from torch import Tensor

from discrete_meanflow.errors import InputError
from discrete_meanflow.explore.questions import MOST_RECORDS, MOST_STEPS, SampleQuestion
from discrete_meanflow.model.evaluate import LEGEND
from discrete_meanflow.model.one_step_model import OneStepModel
from discrete_meanflow.model.training_record import sampling_note
from discrete_meanflow.model.views import record_views
from discrete_meanflow.report.evaluation import ScoreTable
from discrete_meanflow.run.json_files import Json, read_json
from discrete_meanflow.sampler.chunk import chunk_size
from discrete_meanflow.types import Probs, State
from discrete_meanflow.web.site import page_view

MOST_OPERATIONS = 5e11  # of a column: some ten seconds on a CPU
MOST_SYMBOLS, LEAST = 8, 5e-4  # symbols of a law that are shown, and their least probability


class RunView:
    """A trained run on the CPU."""

    def __init__(self, folder: Path) -> None:
        self.model = OneStepModel.load(folder, "cpu")
        config, network = self.model.config, self.model.kernel.network
        if not config.plan.system.one_step:
            raise InputError(
                f"{folder}: method {config.plan.method} has no step from noise to records, which "
                f"the page shows; use dmf sample {folder}"
            )
        self.codec = config.codec
        parameters = sum(p.numel() for p in network.parameters())
        operations = 2 * parameters * MOST_STEPS * (self.codec.length if config.plan.heads else 1)
        # One chunk, so that the noise is that of `OneStepModel.sample`.
        chunk = chunk_size(self.codec.length, self.codec.vocabulary, network)
        affordable = max(4, int(MOST_OPERATIONS / operations))
        self.most_records = min(MOST_RECORDS, chunk, affordable)
        self.facts: Json = {
            **page_view(config, folder.resolve().name),
            "parameters": parameters,
            "most records": self.most_records,
            "note": sampling_note(folder, config),
            "evaluation": evaluation_view(folder),
        }

    def columns(self, question: SampleQuestion) -> list[Json]:
        """Records of each number of steps, all from the same noise.

        The tokens are those of ``OneStepModel.sample`` with the same seed. ``laws`` has the
        likeliest symbols of each position as pairs of token and probability.
        """
        if question.count > self.most_records:
            raise InputError(f"count must be at most {self.most_records} for this run")
        fixed = self._fixed(question)
        return [self._column(question, steps, fixed) for steps in question.steps]

    def _fixed(self, question: SampleQuestion) -> dict[int, int]:
        layout, length = self.codec.layout, self.codec.length
        for position, token in question.fixed:
            if not 0 <= position < length:
                raise InputError(f"positions are from 0 to {length - 1}, got {position}")
            is_class = position >= len(layout.positions)
            symbols = self.codec.vocabulary if is_class else len(layout.symbols_at(position))
            if not 0 <= token < symbols:
                raise InputError(f"tokens of position {position} are below {symbols}, got {token}")
        return dict(question.fixed)

    def _column(self, question: SampleQuestion, steps: int, fixed: dict[int, int]) -> Json:
        started = time.perf_counter()
        symbols, laws = self.sample(question.count, steps, question.seed, fixed)
        return {
            "steps": steps,
            "seconds": time.perf_counter() - started,
            "records": record_views(self.model.config, symbols),
            "laws": likeliest(laws),
        }

    @torch.no_grad()
    def sample(
        self, count: int, steps: int, seed: int, fixed: dict[int, int]
    ) -> tuple[State, Probs]:
        """Tokens ``(n, D)`` and the laws they are the likeliest symbols of, ``(n, D, V)``."""
        kernel, codec, g = self.model.kernel, self.codec, torch.Generator().manual_seed(seed)
        sampler = self.model.config.plan.system.sampler(kernel, steps, (), 1.0)
        shape = count, codec.length
        noise = self.model.config.plan.process(codec).source(shape, g)
        tokens, observed = torch.zeros(shape).long(), torch.zeros(shape).bool()
        for position, token in fixed.items():
            tokens[:, position], observed[:, position] = token, True
        known: tuple[Tensor, ...] = (tokens, observed) if fixed else ()
        *_, laws = sampler.trajectory(noise, g, *known)
        return sampler.symbols(laws, g), laws


def likeliest(laws: Probs) -> list[list[list[tuple[int, float]]]]:
    """For each record and position, pairs of token and probability, the likeliest first."""
    values, tokens = laws.topk(min(MOST_SYMBOLS, laws.shape[-1]))
    return [
        [
            [(k, p) for i, (k, p) in enumerate(zip(*pair, strict=True)) if i == 0 or p >= LEAST]
            for pair in zip(*record, strict=True)
        ]
        for record in zip(tokens.tolist(), values.tolist(), strict=True)
    ]


def evaluation_view(folder: Path) -> Json | None:
    """The scores of ``dmf evaluate``; None if there are none that can be read."""
    try:
        scores = ScoreTable.of(read_json(folder / "evaluation.json")["scores"])
        rows = [scores.held_out, *scores.samples.values()]
        if not all(math.isfinite(row[name]) for row in rows for name in scores.names):
            return None
    except (InputError, LookupError, TypeError, ValueError, AttributeError):
        return None
    return {
        "scores": {name: LEGEND.get(name, "") for name in scores.names},
        "held out": scores.held_out,
        "samples": scores.samples,
    }
