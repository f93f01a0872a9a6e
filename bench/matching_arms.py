"""The variants of distribution matching that ``distribution_matching.py`` compares."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import softplus

from discrete_meanflow.kernel import FlowMapKernel, Kernel, MatchedFlowMap, StudentAndFake
from discrete_meanflow.model.plan import MATCHING_WORK, Plan
from discrete_meanflow.objective import DistributionMatching
from discrete_meanflow.process import PathSample
from discrete_meanflow.simplex import delta, interpolate
from discrete_meanflow.training import MatchingDistillation, Problem, Recipe
from discrete_meanflow.types import Logits, Probs, Tokens

HEAD_WEIGHT = 0.05  # of the real-versus-fake term in the student's loss
DISCRIMINATOR_WEIGHT = 0.2  # of the discriminator's own loss


class UnscaledMatching(DistributionMatching):
    """Without the L1 scale of DMD: all records and noise levels have the same weight."""

    def scale(self, symbols: Tokens, real: Probs, free: Tensor) -> Tensor:
        return torch.ones_like(real[..., :1, 0])


class MatchingWithHead(DistributionMatching):
    r"""Distribution matching with a real-versus-fake head, as in DMD2.

    DMD2 adds a classifier on features of the fake network. Here it needs no parameters: adding a
    constant to the logits l of a position changes no probability, so the log-sum-exp of the logits
    is free. Its mean over the free positions is the discriminator

        D(x_s, s) = mean_positions log sum_v exp l_v(x_s, s),

    trained by ``softplus(D(fake)) + softplus(-D(real))`` on noised samples and noised records. The
    student descends ``softplus(-D(fake))``. Its gradient in x_s, times s, is that in the one-hot
    sample, and is applied to the logits like the difference ``mu_F - mu_T``.
    """

    def matching(self, fake: Kernel, path: PathSample, log_q: Logits) -> Tensor:
        free, symbols, noised = self.draw(path, log_q)
        record = delta(path.x1, log_q.shape[-1], log_q.dtype)
        real = interpolate(path.y[..., 0, :], record, path.s)
        points = torch.cat([noised, real]).detach().requires_grad_()
        times, twice = (torch.cat([part, part]) for part in (path.s, free))
        logits = fake(points, times, times)
        count = twice.sum(-1).clamp(min=1)
        score = torch.where(twice, logits.logsumexp(-1), 0.0).sum(-1) / count
        fake_score, real_score = score.chunk(2)
        inner = softplus(-fake_score).sum()
        slope = torch.autograd.grad(inner, points, retain_graph=True)[0].chunk(2)[0]
        # A position's share of the mean is undone, as the loss below is a mean over positions.
        slope = slope * path.s[..., None] * count.chunk(2)[0][:, None, None]
        log_fake = logits.chunk(2)[0].log_softmax(-1)
        with torch.no_grad():
            log_real = self.frozen(noised, path.s, path.s).log_softmax(-1)
            difference = self.difference(log_fake, log_real)
            difference = difference / self.scale(symbols, log_real.exp(), free)[..., None]
        log_q = log_q - log_q.detach()  # the value is 0, the gradient stays
        student = ((difference + HEAD_WEIGHT * slope.detach()) * log_q).sum(-1)
        nll = -log_fake.gather(-1, symbols[..., None])[..., 0]
        discriminator = (softplus(fake_score) + softplus(-real_score)).mean()
        matched = torch.where(free, student + nll, 0.0).mean()
        return matched + DISCRIMINATOR_WEIGHT * discriminator


@dataclass(frozen=True)
class Arm:
    """A variant of the third stage.

    Args:
        settings: of :class:`MatchingDistillation`; others keep their defaults.
        objective: the class of the objective.
        more_pairs: train the second stage further instead.
    """

    settings: Mapping[str, Any] = field(default_factory=dict)
    objective: type[DistributionMatching] = DistributionMatching
    more_pairs: bool = False

    @property
    def is_default(self) -> bool:
        """Whether the settings, if there are any, are the defaults of the library."""
        defaults = (getattr(MatchingDistillation, name) == v for name, v in self.settings.items())
        return bool(self.settings) and all(defaults)


ARMS = {
    "default": Arm(),
    "pairs 0": Arm({"pair_weight": 0.0}),
    "pairs 0.1": Arm({"pair_weight": 0.1}),
    "pairs 0.5": Arm({"pair_weight": 0.5}),
    "fake rate 1": Arm({"fake_rate": 1.0}),
    "fake rate 3": Arm({"fake_rate": 3.0}),
    "fake rate 10": Arm({"fake_rate": 10.0}),
    "reverse -0.2": Arm({"reverse": -0.2}),
    "no scale": Arm(objective=UnscaledMatching),
    "head": Arm(objective=MatchingWithHead),
    "more pairs": Arm(more_pairs=True),
}
# Arms that equal the default one are left out unless they are asked for.
DEFAULT_ARMS = [name for name, arm in ARMS.items() if not arm.is_default]


@dataclass(frozen=True)
class Stages:
    """The first two stages: their problems and trained kernels."""

    first: Problem
    second: Problem
    teacher: Kernel
    student: Kernel


def prepare(arm: Arm, plan: Plan, stages: Stages) -> tuple[Problem, Recipe, Kernel]:
    """What an arm trains, how, and the kernel that it starts from."""
    matching = replace(plan.matching, **arm.settings)
    if arm.more_pairs:  # the second stage for as long, and with the same small learning rate
        steps, rate = round(MATCHING_WORK * plan.matching_steps), matching.recipe.learning_rate
        recipe = replace(plan.distillation.recipe, iterations=steps, learning_rate=rate)
        return stages.second, recipe, stages.student
    problem = matching.problem(stages.first, stages.second, stages.teacher)
    objective = arm.objective(stages.teacher, matching.pair_weight, matching.reverse)
    problem = replace(problem, objective=objective)
    return problem, matching.recipe, matching.pair(stages.student, stages.teacher)


def generator(kernel: Kernel, stages: Stages) -> Kernel:
    """The kernel that samples: after matching, the student's flow map with its own step (0, 1)."""
    if not isinstance(kernel, StudentAndFake):
        return kernel
    assert isinstance(stages.student, FlowMapKernel)
    return MatchedFlowMap(stages.student, kernel.student())
