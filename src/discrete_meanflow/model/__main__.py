"""``python -m discrete_meanflow.model FILE --out RUN``: train without the CLI packages.

For machines that have PyTorch and little else. The samples that are drawn at the end stay in the
run folder; ``dmf evaluate RUN`` judges them elsewhere, with the same numbers.
"""

import argparse
import shlex
import sys
from collections.abc import Callable
from pathlib import Path

from discrete_meanflow.data.kind import KINDS, detect, find_kind
from discrete_meanflow.data.subword_codec import SubwordCodec
from discrete_meanflow.device import find_device
from discrete_meanflow.errors import InputError
from discrete_meanflow.files import digest
from discrete_meanflow.guard import run_guarded
from discrete_meanflow.model.eval_samples import STEPS, EvaluateOptions, compare, draw, keep
from discrete_meanflow.model.one_step_model import OneStepModel
from discrete_meanflow.model.prepare import as_option, prepare
from discrete_meanflow.model.run_folder import is_trained, read_json
from discrete_meanflow.model.train import ProgressEvent, train
from discrete_meanflow.training import Distributed

NAME = "python -m discrete_meanflow.model"
NAMES = [
    name for name, kind in KINDS.items() if kind.codec is not SubwordCodec
]  # without a tokenizer


def main() -> int:
    parser = argparse.ArgumentParser(prog=NAME, description="Train, then draw samples to judge.")
    parser.add_argument("file", type=Path, help="text, SMILES, FASTA, a table or an array")
    parser.add_argument(
        "--out", type=Path, required=True, help="run folder; one that is there is gone on with"
    )
    parser.add_argument("--kind", default="auto", choices=["auto", *NAMES])
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--size", type=float, help="parameters of the network")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="auto", choices=["auto", "cpu", "cuda"])
    parser.add_argument(
        "-n", type=int, default=EvaluateOptions.n, help="samples at each number of steps"
    )
    parser.add_argument("--steps", type=int, nargs="+", default=list(STEPS))
    parser.add_argument("--reading", type=int, default=0, help="steps of a reader, for bits")
    given = parser.parse_args()
    return run_guarded(lambda: _run(given))


def _run(given: argparse.Namespace) -> None:
    asked = EvaluateOptions(given.n, given.seed, tuple(given.steps), given.reading)
    device, command = find_device(given.device), _command(given)
    if not given.file.is_file():
        raise InputError(f"{given.file} does not exist")
    told = {"command": command, "sha256": digest(given.file)}
    if not (given.out / "config.json").exists():
        _prepare(given, device, told)
    elif not told.items() <= read_json(given.out / "data.json").items():
        raise InputError(f"{given.out} holds another run; choose another --out")
    else:
        print(f"{given.out} holds this run already; going on with it", flush=True)
    compare(given.out, asked)  # refused now rather than after all the minutes
    if not is_trained(given.out):
        train(given.out, Distributed(device=device), _teller())
    drawn = draw(OneStepModel.load(given.out, device), asked)
    keep(given.out, drawn)
    for who, bits in drawn.bits.items():
        print(f"{who}: {bits:.3f} bits")
    print(f"trained, samples drawn; now dmf evaluate {given.out} {asked.options}", flush=True)


def _command(given: argparse.Namespace) -> str:
    """What was asked for, without the places of this machine."""
    told = {
        "--kind": given.kind, "--minutes": given.minutes, "--seed": given.seed,
        "--size": given.size,
    }  # fmt: skip
    words = [NAME, shlex.quote(given.file.name)]
    for name, value in told.items():
        words += [name, as_option(value)] * (value not in ("auto", 0, None))
    return " ".join(words)


def _prepare(given: argparse.Namespace, device: str, told: dict[str, str]) -> None:
    kind = detect(given.file) if given.kind == "auto" else find_kind(given.kind)
    card = prepare(
        given.out, kind, kind.read(given.file), device, minutes=given.minutes, size=given.size,
        seed=given.seed, told=told,
    )  # fmt: skip
    for key, value in card.items():
        print(f"  {key}: {value}", flush=True)


def _teller() -> Callable[[ProgressEvent], None]:
    """Says a line at every tenth of the way."""
    told = 0

    def say(news: ProgressEvent) -> None:
        nonlocal told
        tenth = 10 * news.iteration // news.iterations
        if tenth > told:
            told = tenth
            print(
                f"{tenth}0 %, loss {news.loss:.3f}, {news.tokens_per_second:,.0f} tokens/s, "
                f"{news.seconds:.1f} s",
                flush=True,
            )

    return say


if __name__ == "__main__":
    sys.exit(main())
