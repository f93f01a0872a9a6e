"""Kernels of the chains that the page shows, trained in a process of their own.

Training in a thread would slow the answers down, and tracing a step changes PyTorch's modules for
all threads.
"""

import multiprocessing
import queue
import signal
import threading
from multiprocessing.connection import Connection

import torch

from discrete_meanflow.errors import InputError
from discrete_meanflow.explore.questions import ChainRates
from discrete_meanflow.kernel import Kernel
from discrete_meanflow.run.json_files import Json
from discrete_meanflow.training import Recipe, Trainer, chain_problem

RECIPE = Recipe(1000, learning_rate=1e-2, block=20)
SEED = 0
MOST_WAITING, MOST_KEPT = 8, 64  # chains


class Learner:
    """Trains one kernel at a time and keeps the last ones."""

    def __init__(self) -> None:
        self._kernels: dict[ChainRates, Kernel] = {}
        self._progress: dict[ChainRates, float] = {}  # of chains that wait or are trained
        self._errors: dict[ChainRates, str] = {}
        self._waiting: queue.Queue[ChainRates] = queue.Queue(MOST_WAITING)
        self._lock = threading.Lock()
        self._worker: tuple[multiprocessing.process.BaseProcess, Connection] | None = None
        threading.Thread(target=self._serve, daemon=True).start()

    def kernel(self, chain: ChainRates) -> Kernel | None:
        """The trained kernel of a chain."""
        return self._kernels.get(chain)

    def state(self, chain: ChainRates) -> Json:
        """Whether a chain is trained: ``progress`` from 0 to 1, or None; and its ``error``."""
        with self._lock:
            trained = 1.0 if chain in self._kernels else None
            progress = self._progress.get(chain, trained)
            return {"progress": progress, "error": self._errors.get(chain)}

    def train(self, chain: ChainRates) -> None:
        """Train a kernel soon, unless it exists or waits already."""
        with self._lock:
            if chain in self._kernels or chain in self._progress:
                return
            try:
                self._waiting.put_nowait(chain)
            except queue.Full:
                raise InputError("too many chains wait for training; try again soon") from None
            self._errors.pop(chain, None)
            self._progress[chain] = 0.0

    def stop(self) -> None:
        """End the process."""
        if self._worker is not None:
            self._worker[0].terminate()

    def _serve(self) -> None:
        while True:
            chain = self._waiting.get()
            try:
                self._keep(chain, self._trained(chain))
            except (InputError, OSError, EOFError) as error:
                with self._lock:
                    self._errors[chain] = str(error) or "the training process has ended"
            finally:
                with self._lock:
                    del self._progress[chain]

    def _keep(self, chain: ChainRates, kernel: Kernel) -> None:
        with self._lock:
            self._kernels[chain] = kernel
            for old in list(self._kernels)[:-MOST_KEPT]:
                del self._kernels[old]

    def _trained(self, chain: ChainRates) -> Kernel:
        """Train in the other process and rebuild the kernel here."""
        if self._worker is None or not self._worker[0].is_alive():
            self._worker = _start()
        _, connection = self._worker
        connection.send(chain.rates)
        while isinstance(message := connection.recv(), float):
            with self._lock:
                self._progress[chain] = message
        if isinstance(message, str):
            raise InputError(message)
        kernel = chain_problem(chain.generator).kernel()
        kernel.load_state_dict({name: torch.from_numpy(a) for name, a in message.items()})
        return kernel.requires_grad_(False)


def _start() -> tuple[multiprocessing.process.BaseProcess, Connection]:
    """Start the process, which ends with this one."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_work, args=(theirs,), daemon=True)
    process.start()
    theirs.close()
    return process, ours


def _work(connection: Connection) -> None:
    """Train chains until the connection closes: fractions, then weights or an error."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the server
    torch.set_num_threads(1)
    try:
        while True:
            generator = ChainRates(rates=connection.recv()).generator
            trainer = Trainer(chain_problem(generator), RECIPE, [SEED])
            try:
                for block in trainer.blocks():
                    connection.send(block.iteration / RECIPE.iterations)
                weights = trainer.kernels()[0].state_dict()
                connection.send({name: tensor.numpy() for name, tensor in weights.items()})
            except InputError as error:
                connection.send(str(error))
    except (EOFError, OSError):
        return
