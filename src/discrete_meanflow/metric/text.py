"""Metrics of generated text: known words, entropy, and bits per symbol under a reference LM."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from discrete_meanflow.errors import InputError
from discrete_meanflow.types import State

MIN_STEPS = 50  # the learning rate must warm up and decay
CHUNK = 512  # records evaluated at once


def known_words(texts: Sequence[str], vocabulary: set[str]) -> float:
    """Fraction of words that occur in ``vocabulary``; words cut by a window's edge are skipped."""
    words = [word for text in texts for word in _whole_words(text)]
    return sum(word in vocabulary for word in words) / max(1, len(words))


def _whole_words(text: str) -> list[str]:
    words = text.split()
    return words[not text[:1].isspace() : len(words) - (not text[-1:].isspace())]


def letter_entropy(x: State, vocabulary: int) -> float:
    """Entropy in bits of the symbol frequencies within a record, averaged over records.

    Report it beside generative perplexity: repetitive text has a low perplexity and a low entropy,
    so bits per symbol are comparable only at equal entropy.
    """
    frequency = nn.functional.one_hot(x.long(), vocabulary).double().mean(1)
    return -torch.special.xlogy(frequency, frequency).sum(-1).mean().item() / math.log(2)


class ReferenceLM(nn.Module):
    """A small causal Transformer, ``-log2 p(x_i | x_1 .. x_{i-1})``, trained on held-out records.

    Its bits per symbol on generated records are their generative perplexity, in base 2 and per
    symbol. Two caveats hold (Zheng et al. 2024, arXiv:2409.02908, for discrete diffusion):
    low-entropy text scores well, so report the entropy beside it, and compare with held-out
    records rather than with zero. The model is trained here rather than downloaded, so scores are
    comparable only under the same reference model.
    """

    def __init__(self, vocabulary: int, length: int, width: int = 256, layers: int = 4) -> None:
        super().__init__()
        self.start = vocabulary  # token before the first symbol
        self.symbol = nn.Embedding(vocabulary + 1, width)
        self.position = nn.Parameter(torch.randn(length, width) / width**0.5)
        # nn.TransformerEncoder would initialise all layers to the same weights.
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(
                width, width // 32, 4 * width, 0.1, "gelu", batch_first=True, norm_first=True
            )
            for _ in range(layers)
        )
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, x: State) -> Tensor:
        """Bits of each symbol: ``(n, D) -> (n, D)``."""
        previous = torch.cat([torch.full_like(x[:, :1], self.start), x[:, :-1]], 1)
        h = self.symbol(previous) + self.position
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1], device=x.device)
        for layer in self.layers:
            h = layer(h, src_mask=mask, is_causal=True)
        logits = self.head(self.norm(h)).float()
        return nn.functional.cross_entropy(logits.mT, x, reduction="none") / math.log(2)

    @classmethod
    def fit(
        cls,
        x: State,
        vocabulary: int,
        device: str,
        iterations: int,
        batch: int = 128,
        width: int = 256,
        layers: int = 4,
        seed: int = 0,
    ) -> "ReferenceLM":
        """Train on the records ``x``, shape ``(N, D)``, and freeze."""
        if iterations < MIN_STEPS:
            raise InputError(
                f"--lm-steps: the reference LM needs at least {MIN_STEPS} steps, got {iterations}"
            )
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            model = cls(vocabulary, x.shape[1], width, layers).to(device)
            optimiser = torch.optim.AdamW(model.parameters(), 1e-3, weight_decay=0.05)
            schedule = torch.optim.lr_scheduler.OneCycleLR(
                optimiser, 1e-3, iterations, pct_start=0.05
            )
            for _ in range(iterations):
                rows = torch.randint(len(x), (batch,))
                optimiser.zero_grad()
                with torch.autocast(model.position.device.type, torch.bfloat16):
                    model(x[rows].long().to(device)).mean().backward()
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimiser.step()
                schedule.step()
        return model.eval().requires_grad_(False)

    @torch.no_grad()
    def bits(self, x: State) -> float:
        """Mean bits per symbol of the records ``x``."""
        chunks = x.long().to(self.position.device).split(CHUNK)
        return sum(self(chunk).double().sum().item() for chunk in chunks) / x.numel()
