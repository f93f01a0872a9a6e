"""What text is made of: its words, its letters, and how well another reader foresees it."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from discrete_meanflow.errors import InputError
from discrete_meanflow.types import State

FEWEST = 50  # steps of a reader, whose learning rate must rise and fall


def known_words(texts: Sequence[str], vocabulary: set[str]) -> float:
    """The share of words that are known. Those that an edge may cut are left out."""
    words = [word for text in texts for word in _whole_words(text)]
    return sum(word in vocabulary for word in words) / max(1, len(words))


def _whole_words(text: str) -> list[str]:
    words = text.split()
    return words[not text[:1].isspace() : len(words) - (not text[-1:].isspace())]


def letter_entropy(x: State, vocabulary: int) -> float:
    """Bits: the entropy of the symbols of a record, mean over records.

    Text of few letters is easily foreseen; a low number of bits counts at equal entropy.
    """
    share = nn.functional.one_hot(x.long(), vocabulary).double().mean(1)
    return -torch.special.xlogy(share, share).sum(-1).mean().item() / math.log(2)


class ReferenceLM(nn.Module):
    """A causal Transformer: ``-log2 p(x_i | x_1 .. x_{i-1})``, a judge of text it was not given.

    It is trained on other text than the generator that it judges, and then left as it is.
    """

    def __init__(self, vocabulary: int, length: int, width: int = 256, layers: int = 4) -> None:
        super().__init__()
        self.start = vocabulary  # the symbol before the first
        self.symbol = nn.Embedding(vocabulary + 1, width)
        self.position = nn.Parameter(torch.randn(length, width) / width**0.5)
        # Not an encoder, which gives all its layers the same first weights.
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
        before = torch.cat([torch.full_like(x[:, :1], self.start), x[:, :-1]], 1)
        h = self.symbol(before) + self.position
        future = nn.Transformer.generate_square_subsequent_mask(x.shape[1], device=x.device)
        for layer in self.layers:
            h = layer(h, src_mask=future, is_causal=True)
        logits = self.head(self.norm(h)).float()
        return nn.functional.cross_entropy(logits.mT, x, reduction="none") / math.log(2)

    @classmethod
    def trained(
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
        """One that has read the records x, ``(N, D)``."""
        if iterations < FEWEST:
            raise InputError(f"a reader needs at least {FEWEST} steps, got {iterations}")
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            reader = cls(vocabulary, x.shape[1], width, layers).to(device)
            adam = torch.optim.AdamW(reader.parameters(), 1e-3, weight_decay=0.05)
            pace = torch.optim.lr_scheduler.OneCycleLR(adam, 1e-3, iterations, pct_start=0.05)
            for _ in range(iterations):
                pick = torch.randint(len(x), (batch,))
                adam.zero_grad()
                with torch.autocast(reader.position.device.type, torch.bfloat16):
                    reader(x[pick].long().to(device)).mean().backward()
                nn.utils.clip_grad_norm_(reader.parameters(), 1.0)
                adam.step()
                pace.step()
        return reader.eval().requires_grad_(False)

    @torch.no_grad()
    def bits(self, x: State) -> float:
        """Bits per symbol."""
        lots = x.long().to(self.position.device).split(512)
        return sum(self(lot).double().sum().item() for lot in lots) / x.numel()
