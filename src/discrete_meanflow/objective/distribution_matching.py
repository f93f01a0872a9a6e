import copy
import math

import torch
from torch import Tensor

from discrete_meanflow.errors import InputError
from discrete_meanflow.kernel import FlowMapKernel, Kernel, StudentAndFake
from discrete_meanflow.objective.base import Needs, Objective
from discrete_meanflow.path import MatchingPaths, TeacherPairs
from discrete_meanflow.path.mixed import part_sizes
from discrete_meanflow.process import PathSample
from discrete_meanflow.simplex import delta, interpolate
from discrete_meanflow.types import Logits, Point, Probs, Tokens

SMALLEST_DISTANCE = 0.05  # of a sample from the teacher's prediction, which scales the difference


class DistributionMatching(Objective):
    r"""Match the law of the student's samples to the teacher's, at all noise levels.

    A batch has two parts, ``MixedPaths(MatchingPaths, TeacherPairs)``. On the first, the student
    maps noise z to symbols ``y = argmax q_theta(z, 0, 1)``, which are noised again:
    ``x_s = (1 - s) z' + s e_y``. With ``mu_T`` and ``mu_F`` the diagonals of the teacher and of the
    fake network at x_s,

        L = <stopgrad(mu_F - mu_T) / w, log q_theta> - log mu_F(y).

    The first term counts with its gradient only: its value is 0, so L is a likelihood. Descent
    raises the symbols that the teacher finds more likely than the fake network does; at
    ``mu_F = mu_T`` the student is stationary. The difference of scores of
    ``KL(student_s || teacher_s)`` is proportional to ``mu_F - mu_T``: distribution matching
    distillation (DMD, Yin et al. 2023, arXiv:2311.18828; DMD2, 2024, arXiv:2405.14867). Applied to
    logits, as here, it is the token-level surrogate of Di[M]O (Zhu et al. 2025, arXiv:2503.15457).
    w is the L1 distance of e_y from mu_T, averaged over the positions of a record, as in DMD.
    The second part adds ``pair_weight`` times cross-entropy on teacher pairs: matching alone
    seeks modes.

    The formula holds for noise that is independent of the data: the teacher must be trained
    without minibatch optimal transport.

    Args:
        teacher: a kernel whose diagonal is trained; it is copied and frozen.
        pair_weight: weight of the cross-entropy on the second part.
        reverse: weight of the reverse KL divergence between fake and teacher prediction; the rest
            is forward KL. Negative values are less mode-seeking (Di[M]O's Jeffreys divergence).
    """

    needs = Needs(draws=1, continuous=True, parts=(MatchingPaths, TeacherPairs))
    weight: Tensor

    def __init__(self, teacher: Kernel, pair_weight: float = 0.1, reverse: float = 0.0) -> None:
        super().__init__()
        if not isinstance(teacher, FlowMapKernel):
            raise InputError(
                f"distribution matching needs a FlowMapKernel; {type(teacher).__name__} has "
                "discrete states"
            )
        self.frozen = copy.deepcopy(teacher).requires_grad_(False)
        if not 0 <= pair_weight < math.inf:
            raise InputError(f"distribution matching: pair_weight must be >= 0, got {pair_weight}")
        if not math.isfinite(reverse):
            raise InputError(f"distribution matching: reverse must be finite, got {reverse}")
        # A buffer, not a number: objectives that differ in it share compiled code.
        self.register_buffer("weight", torch.tensor(pair_weight), persistent=False)
        self.reverse = reverse

    def forward(self, kernel: Kernel, path: PathSample, teacher: Kernel | None = None) -> Tensor:
        if not isinstance(kernel, StudentAndFake):
            raise InputError(
                f"distribution matching trains a StudentAndFake, not {type(kernel).__name__}"
            )
        log_q = kernel(path.x, path.r, path.t).log_softmax(-1)  # one pass for both parts
        sizes = part_sizes(len(path.x), 2)
        parts = zip(*(tensor.split(sizes) for tensor in path), strict=True)
        matching, pairs = (PathSample(*part) for part in parts)
        log_q, log_q_pairs = log_q.split(sizes)
        loss = self.matching(kernel.fake, matching, log_q)
        nll = -log_q_pairs.gather(-1, pairs.x1[..., None])[..., 0].mean()
        return loss + self.weight.to(loss.dtype) * nll

    def matching(self, fake: Kernel, path: PathSample, log_q: Logits) -> Tensor:
        """The loss of the first part, from the student's ``log q``."""
        free, symbols, noised = self.draw(path, log_q)
        log_fake = fake(noised, path.s, path.s).log_softmax(-1)
        with torch.no_grad():
            log_real = self.frozen(noised, path.s, path.s).log_softmax(-1)
            difference = self.difference(log_fake, log_real)
            difference = difference / self.scale(symbols, log_real.exp(), free)[..., None]
        student = (difference * log_q).sum(-1)
        student = student - student.detach()
        nll = -log_fake.gather(-1, symbols[..., None])[..., 0]
        return torch.where(free, student + nll, 0.0).mean()

    def draw(self, path: PathSample, log_q: Logits) -> tuple[Tensor, Tokens, Point]:
        """The free positions, the student's symbols, and the noised sample."""
        free = (path.r < 1).expand(log_q.shape[:-1])
        symbols = torch.where(free, log_q.argmax(-1), path.x1)
        sample = delta(symbols, log_q.shape[-1], log_q.dtype)
        return free, symbols, interpolate(path.y[..., 0, :], sample, path.s)

    def scale(self, symbols: Tokens, real: Probs, free: Tensor) -> Tensor:
        """w: L1 distance of e_y from mu_T, averaged over free positions: ``(*batch, 1)``."""
        distance = 2 * (1 - real.gather(-1, symbols[..., None])[..., 0])
        distance = torch.where(free, distance, 0.0).sum(-1, keepdim=True)
        distance = distance / free.sum(-1, keepdim=True).clamp(min=1)
        return distance.clamp(min=SMALLEST_DISTANCE)

    def difference(self, log_fake: Logits, log_real: Logits) -> Tensor:
        """The gradient in the student's logits, up to scale: ``(*batch, D, V)``."""
        fake = log_fake.exp()
        forward = fake - log_real.exp()
        if self.reverse == 0:
            return forward
        ratio = log_fake - log_real
        reverse = fake * (ratio - (fake * ratio).sum(-1, keepdim=True))
        return (1 - self.reverse) * forward + self.reverse * reverse

    def extra_repr(self) -> str:
        return f"pair_weight={self.weight.item():g}, reverse={self.reverse:g}"
