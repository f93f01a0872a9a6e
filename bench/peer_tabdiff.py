"""TabDiff (Shi et al., 2024), from a checkout of its repository, as a peer of our tables."""

import copy
import importlib
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy
import pandas
import torch
from torch import Tensor, nn

from peer_models import Peer

SCHEDULES = "num_schedule", "cat_schedule"  # of the noise, which TabDiff learns
PARTS = ("_denoise_fn", *SCHEDULES)  # of the diffusion, with EMA weights


class TabDiff(Peer):
    """Its diffusion, network, transforms and sampler with its configuration, for a limited time.

    TabDiff trains for thousands of epochs. Here, the time stands for them: the weight of the
    continuous loss falls to zero over the time, and the EMA decays per step such that it averages
    over the same share of the training. Its trainer also measures losses of the EMA after each
    epoch, to choose a checkpoint; this is left out, and the last weights are taken.

    Args:
        checkout: of https://github.com/MinkaiXu/TabDiff.
        batch: rows of a step instead of the configured number, which takes seconds on a CPU core.
        seed: of weights, batches and noise.
    """

    def __init__(self, checkout: Path, batch: int | None, seed: int) -> None:
        self._checkout = checkout
        sys.path.insert(0, str(checkout))
        threads = torch.get_num_threads()
        self._source = importlib.import_module("src")
        torch.set_num_threads(threads)  # the import sets one thread
        torch.manual_seed(seed)
        self._config = self._source.load_config(checkout / "tabdiff/configs/tabdiff_configs.toml")
        self._batch = batch or self._config["train"]["main"]["batch_size"]

    @property
    def version(self) -> str:
        command = ["git", "-C", str(self._checkout), "rev-parse", "--short", "HEAD"]
        commit = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
        return f"TabDiff {commit}, batches of {self._batch}"

    def train(self, rows: pandas.DataFrame, discrete: Sequence[str], deadline: float) -> int:
        data = self._encoded(rows, discrete)
        self._diffusion = self._untrained()
        return self._trained(data, deadline)

    def _encoded(self, rows: pandas.DataFrame, discrete: Sequence[str]) -> Tensor:
        """Normal scores of the numbers, then codes of the levels."""
        self._rows = rows
        self._numbers = [name for name in rows.columns if name not in discrete]
        self._levels = list(discrete)
        parts = [numpy.zeros((len(rows), 0))] * 2
        if self._numbers:
            numbers = {"train": rows[self._numbers].to_numpy(numpy.float32)}
            scores, self._quantiles = self._source.data.normalize(numbers, "quantile", 0, True)
            parts[0] = scores["train"]
        if self._levels:
            levels = {"train": rows[self._levels].to_numpy(object)}
            codes, _, self._codes = self._source.data.cat_encode(levels, None, None, 0, True)
            parts[1] = codes["train"]
        return torch.from_numpy(numpy.concatenate(parts, 1)).float()

    def _untrained(self) -> Any:
        """The diffusion with its network, as TabDiff's main.py makes them."""
        networks = importlib.import_module("tabdiff.modules.main_modules")
        module = importlib.import_module("tabdiff.models.unified_ctime_diffusion")
        sizes = numpy.array([self._rows[name].nunique() for name in self._levels], dtype=int)
        config, count = self._config["diffusion_params"], len(self._numbers)
        backbone = networks.UniModMLP(
            d_numerical=count,
            categories=(sizes + 1).tolist(),  # one more for the mask
            **self._config["unimodmlp_params"],
        )
        schedules = {
            "scheduler": "power_mean_per_column",
            "cat_scheduler": "log_linear_per_column",
        }
        return module.UnifiedCtimeDiffusion(
            num_classes=sizes,
            num_numerical_features=count,
            denoise_fn=networks.Model(backbone, **config["edm_params"]),
            y_only_model=None,
            **config | schedules,
        )

    def _trained(self, data: Tensor, deadline: float) -> int:
        """Train, install the EMA weights, and return the number of steps."""
        settings, diffusion = self._config["train"]["main"], self._diffusion
        averages = {name: copy.deepcopy(getattr(diffusion, name)) for name in PARTS}
        optimiser = torch.optim.AdamW(
            diffusion.parameters(), lr=settings["lr"], weight_decay=settings["weight_decay"]
        )
        plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(
            optimiser, factor=settings["factor"], patience=settings["reduce_lr_patience"]
        )
        started, steps, share = time.monotonic(), 0, 0.0  # of the time
        while share < 1:
            losses = []
            for batch in data[torch.randperm(len(data))].split(self._batch):
                discrete, continuous = diffusion.mixed_loss(batch)
                weight = settings["c_lambda"] * (1 - share)
                optimiser.zero_grad()
                (settings["d_lambda"] * discrete + weight * continuous).sum().backward()
                optimiser.step()
                losses.append(float(discrete + continuous))
                steps, before = steps + 1, share
                share = min(1.0, (time.monotonic() - started) / max(1.0, deadline - started))
                decay = settings["ema_decay"] ** (settings["steps"] * (share - before))
                for name, average in averages.items():
                    _average(average, getattr(diffusion, name), decay)
                if share == 1:
                    break
            plateau.step(sum(losses) / len(losses))
        for name, average in averages.items():
            setattr(diffusion, name, average)
        return steps

    def sample(self, n: int) -> pandas.DataFrame:
        size = min(n, self._config["sample"]["batch_size"])
        rows = self._diffusion.eval().sample_all(n, size, keep_nan_samples=True).numpy()
        made: dict[str, numpy.ndarray] = {}
        count = len(self._numbers)
        if self._numbers:
            numbers = self._quantiles.inverse_transform(rows[:, :count])
            made |= dict(zip(self._numbers, numbers.T, strict=True))
        if self._levels:
            levels = self._codes.inverse_transform(rows[:, count:].astype(int))
            made |= dict(zip(self._levels, levels.T, strict=True))
        return pandas.DataFrame(made)


@torch.no_grad()
def _average(average: nn.Module, module: nn.Module, decay: float) -> None:
    pairs: Iterable[tuple[Tensor, Tensor]] = zip(
        average.parameters(), module.parameters(), strict=True
    )
    for mean, value in pairs:
        mean.lerp_(value, 1 - decay)
