"""Handwritten digits of 8 x 8 pixels in four grey levels, on a CPU."""

import warnings
from functools import cached_property
from typing import Any, ClassVar

import numpy
import torch
from torch import Tensor, nn

from discrete_meanflow.errors import InputError
from discrete_meanflow.io.alphabet import Alphabet
from discrete_meanflow.metric.two_samples import copies
from discrete_meanflow.network import FlatMLP
from discrete_meanflow.training import Recipe
from dmf_reproduction.engine.experiment import Claim, Json, Scale, format_numbers
from dmf_reproduction.experiments.real_data import RealData, Records, at_steps, by_steps
from dmf_reproduction.settings import FACTORISED, FLOW_MAP

SHADES = "0123"
LEVELS = 17  # grey levels of scikit-learn's images
CONFIDENCE = 0.8  # the classifier is confident above this probability
CONFIDENT, DISTANCE = 0.72, 0.9  # bars, relative to held-out images
SHOWN = 60


class JointDigits(RealData):
    name = "joint-digits"
    title = "8 x 8 digits on a CPU: one step, eight steps, factorised"
    claims_summary = (
        "a classifier is confident of one-step digits at least 0.72x as often as of real ones",
        "all ten classes; distance to training images at least 0.9x that of held-out images",
    )
    draws = 2_000
    recipes: ClassVar = {
        FLOW_MAP: Recipe(4_000, learning_rate=1e-3, weight_decay=0.1, ema_decay=0.999),
        FACTORISED: Recipe(3_000, learning_rate=1e-3, weight_decay=0.1, ema_decay=0.999),
    }
    full_interval_fraction = 0.3
    distillations = ()  # in many steps the kernel memorises its 900 images, in one it does not

    @cached_property
    def halves(self) -> tuple[Tensor, Tensor, Tensor]:
        """Images for training, images for the classifier, and the classes of the latter."""
        try:
            from sklearn.datasets import load_digits
        except ImportError:
            raise InputError("joint-digits needs scikit-learn: pip install scikit-learn") from None
        digits = load_digits()
        shades = torch.from_numpy((digits.data * len(SHADES) // LEVELS).astype(numpy.int64))
        order = numpy.random.default_rng(0).permutation(len(shades))
        train, rest = order[: len(shades) // 2], order[len(shades) // 2 :]
        return shades[train], shades[rest], torch.from_numpy(digits.target[rest])

    def read(self) -> Records:
        return Records(*self.halves[:2], Alphabet(SHADES))

    def network(self, states: int, length: int, scale: Scale) -> nn.Module:
        return FlatMLP(states, length, 384 if scale is Scale.paper else 16, 3)

    @cached_property
    def classifier(self) -> Any:
        """A support vector machine with pairwise coupling, which is unsure of non-digits."""
        from sklearn.svm import SVC

        _, images, classes = self.halves
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore", FutureWarning
            )  # probability= is removed in scikit-learn 1.11
            machine = SVC(gamma=0.02, probability=True, random_state=0)
            return machine.fit(images.numpy(), classes.numpy())

    def score(self, samples: list[str]) -> Json:
        x = self.records.alphabet.encode(samples)
        probabilities = self.classifier.predict_proba(x.numpy())
        return {
            "confident": float((probabilities.max(1) > CONFIDENCE).mean()),
            "classes": len(set(probabilities.argmax(1).tolist())),
            "distance": nearest(x, self.records.train).mean().item(),
            "copies": copies(x, self.records.train),
            "shown": samples[:SHOWN],
        }

    def facts(self, scale: Scale) -> Json:
        """The classifier learned the held-out images, so its reference is the training images."""
        facts = super().facts(scale)
        train = self.records.alphabet.decode(self.records.train)
        facts["held out"]["confident"] = self.score(train)["confident"]
        return facts

    def claims(self, facts: Json, cells: Json) -> list[Claim]:
        scores, real = facts["scores"], facts["held out"]
        one = scores[FLOW_MAP]["1"]
        distance = [d / real["distance"] for d in at_steps(scores, "distance")]
        return [
            self.claim(
                "confident",
                f"fraction of one-step digits with confidence above {CONFIDENCE} at least "
                f"{CONFIDENT}x that of real images, {real['confident']:.3f}; "
                f"{by_steps(scores, 'confident')}",
                one["confident"],
                one["confident"] >= CONFIDENT * real["confident"],
            ),
            self.claim("classes", "all ten classes occur", one["classes"], one["classes"] == 10),
            self.claim(
                "distance",
                f"distance to the nearest training image at least {DISTANCE}x that of held-out "
                f"images; at 1 2 4 8 16 64 steps {format_numbers(distance)}",
                f"{distance[0]:.2f}x",
                distance[0] >= DISTANCE,
            ),
        ]


def nearest(x: Tensor, images: Tensor) -> Tensor:
    """Euclidean distance from each row to the nearest image."""
    return torch.cdist(x.double(), images.double()).amin(-1)
