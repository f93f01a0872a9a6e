"""How often a classifier of real records finds the class that a sample was drawn with."""

import numpy
import torch
from torch import Tensor

from discrete_meanflow.io.codec import Codec
from discrete_meanflow.metric import forest
from discrete_meanflow.model.conditional_samples import (
    GUIDANCE,
    STEPS,
    class_sample_name,
    has_class_samples,
    requested_classes,
)
from discrete_meanflow.model.eval_samples import EvalSamples, EvalSplit, row_name
from discrete_meanflow.model.evaluation_grids import REAL
from discrete_meanflow.run.json_files import Json
from discrete_meanflow.types import State

MAX_RECORDS = 20_000  # that train the classifier
MAX_FEATURES = 1 << 27  # of all these records together
TREES = 100
MAX_LEAVES = 1 << 26  # of all trees, times the number of classes: each stores a frequency of each


class ClassAccuracy:
    """A random forest that predicts the class from the rest of the record.

    Args:
        codec: of the run.
        train: training records, which the forest learns from.
        held_out: records whose accuracy is the best that samples can be expected to reach.
    """

    def __init__(self, codec: Codec, train: State, held_out: State, seed: int = 0) -> None:
        self.codec, self.names = codec, list(codec.class_names)
        others = set(range(codec.length)) - set(codec.class_positions)
        self.positions = torch.tensor(sorted(others))
        rows = min(MAX_RECORDS, max(1, MAX_FEATURES // self._features(train[:1]).numel()))
        if len(train) > rows:
            chosen = numpy.random.default_rng(seed).choice(len(train), rows, replace=False)
            train = train[torch.from_numpy(chosen)]
        leaves = MAX_LEAVES // (TREES * len(self.names))
        self.forest = forest.random_forest(
            seed, TREES, max(2, leaves) if leaves < len(train) else None
        )
        self.forest.fit(self._features(train).numpy(), self._numbers(codec.classes_in(train)))
        self.records = len(train)
        # Classes without held-out records have no accuracy to compare with.
        classes = codec.classes_in(held_out)
        self.compared = sorted(set(self.names).intersection(classes))
        self.real = self(held_out, classes)

    def __call__(self, x: State, classes: list[str]) -> Json:
        """Accuracy of the records ``x`` of given classes: of each class, and their mean.

        The mean over classes does not depend on how frequent each is, unlike the plain accuracy.
        """
        wanted = torch.from_numpy(self._numbers(classes))
        correct = torch.from_numpy(self.forest.predict(self._features(x).numpy())) == wanted
        per_class = {
            name: correct[wanted == i].double().mean().item()
            for i, name in enumerate(self.names)
            if bool((wanted == i).any())
        }
        common = [per_class[name] for name in self.compared if name in per_class]
        return {"accuracy": sum(common) / max(1, len(common)), "per class": per_class}

    def _features(self, x: State) -> Tensor:
        return forest.features(x[:, self.positions], self.codec.vocabulary)

    def _numbers(self, classes: list[str]) -> numpy.ndarray:
        number = {name: i for i, name in enumerate(self.names)}
        return numpy.array([number.get(name, -1) for name in classes])


def score_classes(codec: Codec, train: State, split: EvalSplit, samples: EvalSamples) -> Json:
    """Accuracy on held-out records and on samples, by number of steps and guidance."""
    names = {(k, w): class_sample_name(k, w) for k in STEPS for w in GUIDANCE}
    drawn = {place: name for place, name in names.items() if name in samples.conditional}
    if not has_class_samples(codec) or not drawn:
        return {}
    classes = requested_classes(codec, samples.options.n)
    score = ClassAccuracy(codec, train, torch.cat([split.reference, split.real]))
    real = score.real["accuracy"]
    scores = {}
    for (k, guidance), sample_name in drawn.items():
        found = score(samples.conditional[sample_name], classes)
        ratio = found["accuracy"] / real if real else None
        name = f"{row_name(k)}, guidance {guidance:g}"
        scores[name] = {"accuracy": found["accuracy"], "ratio to held out": ratio, **found}
    return {
        "samples": len(classes),
        "training records of the classifier": score.records,
        "scores": {REAL: score.real, **scores},
    }
