"""Handwritten digits of 8 x 8 pixels in four shades, on a CPU."""

import warnings
from functools import cached_property
from typing import Any, ClassVar

import numpy
import torch
from torch import Tensor, nn

from discrete_meanflow.data import Alphabet
from discrete_meanflow.errors import InputError
from discrete_meanflow.metric.two_samples import copies
from discrete_meanflow.network import FlatMLP
from discrete_meanflow.training import Recipe
from dmf_reproduction.engine.experiment import Claim, Json, Scale, in_words
from dmf_reproduction.experiments.real_data import RealData, Records, at_steps

SHADES = "0123"
LEVELS = 17  # of scikit-learn's pixels
SURE = 0.8
CONFIDENT, DISTANCE = 0.72, 0.9  # bars: shares of what held-out images reach
SHOWN = 60


class JointDigits(RealData):
    name = "joint-digits"
    title = "8 x 8 digits, on a CPU: one step, eight steps, factorised"
    claims_summary = (
        "a classifier is sure of one-step digits at least 0.72x as often as of held-out ones",
        "all ten classes; as far from training images as held-out ones (at least 0.9x)",
    )
    draws = 2_000
    recipes: ClassVar = {
        "soft": Recipe(4_000, learning_rate=1e-3, weight_decay=0.1, ema_decay=0.999),
        "factorised": Recipe(3_000, learning_rate=1e-3, weight_decay=0.1, ema_decay=0.999),
    }
    whole = 0.3
    couplings = ()  # in many steps the kernel knows its 900 images by heart, in one it does not

    @cached_property
    def halves(self) -> tuple[Tensor, Tensor, Tensor]:
        """Images for training, images for the classifier, and the classes of the latter."""
        try:
            from sklearn.datasets import load_digits
        except ImportError:
            raise InputError("the digits come with scikit-learn: pip install it") from None
        digits = load_digits()
        shades = torch.from_numpy((digits.data * len(SHADES) // LEVELS).astype(numpy.int64))
        order = numpy.random.default_rng(0).permutation(len(shades))
        train, rest = order[: len(shades) // 2], order[len(shades) // 2 :]
        return shades[train], shades[rest], torch.from_numpy(digits.target[rest])

    def cut(self) -> Records:
        return Records(*self.halves[:2], Alphabet(SHADES))

    def network(self, states: int, length: int, scale: Scale) -> nn.Module:
        return FlatMLP(states, length, 384 if scale is Scale.paper else 16, 3)

    @cached_property
    def classifier(self) -> Any:
        """A support vector machine whose classes are coupled in pairs: unsure of what is none."""
        from sklearn.svm import SVC

        _, images, classes = self.halves
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # probability= goes with release 1.11
            machine = SVC(gamma=0.02, probability=True, random_state=0)
            return machine.fit(images.numpy(), classes.numpy())

    def score(self, samples: list[str]) -> Json:
        x = self.records.alphabet.encode(samples)
        beliefs = self.classifier.predict_proba(x.numpy())
        return {
            "confident": float((beliefs.max(1) > SURE).mean()),
            "classes": len(set(beliefs.argmax(1).tolist())),
            "distance": nearest(x, self.records.train).mean().item(),
            "copies": copies(x, self.records.train),
            "shown": samples[:SHOWN],
        }

    def facts(self, scale: Scale) -> Json:
        """The classifier knows the held-out images: it is judged on the others, the distance on
        these."""
        facts = super().facts(scale)
        train = self.records.alphabet.decode(self.records.train)
        facts["held out"]["confident"] = self.score(train)["confident"]
        return facts

    def verdicts(self, facts: Json) -> list[Claim]:
        scores, real = facts["scores"], facts["held out"]
        one = scores["soft"]["1"]
        soft, hard = (at_steps(scores, k, "confident") for k in ("soft", "factorised"))
        distance = [d / real["distance"] for d in at_steps(scores, "soft", "distance")]
        return [
            self._claim(
                "confident",
                f"sure (> {SURE}) of at least {CONFIDENT}x the share of real images it has not "
                f"seen, {real['confident']:.3f}; at 1 2 4 8 16 64 steps {in_words(soft)}; "
                f"factorised {in_words(hard)}",
                one["confident"],
                one["confident"] >= CONFIDENT * real["confident"],
            ),
            self._claim("classes", "all ten classes", one["classes"], one["classes"] == 10),
            self._claim(
                "distance",
                f"distance to the nearest training image at least {DISTANCE}x that of held-out "
                f"images; at 1 2 4 8 16 64 steps {in_words(distance)}",
                f"{distance[0]:.2f}x",
                distance[0] >= DISTANCE,
            ),
        ]


def nearest(x: Tensor, images: Tensor) -> Tensor:
    """Euclidean distance of each row to the nearest image."""
    return torch.cdist(x.double(), images.double()).amin(-1)
