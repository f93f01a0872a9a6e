"""Cells side by side: in streams of one GPU, or in processes."""

import multiprocessing
import signal
import threading
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess

import torch

from discrete_meanflow.errors import InputError, Interrupted
from discrete_meanflow.signals import blocked_signal, stop_requests
from dmf_reproduction import catalog
from dmf_reproduction.engine.experiment import Cell
from dmf_reproduction.engine.spec import Progress, RunSpec
from dmf_reproduction.engine.train_cell import train_cell


def run_in_streams(
    order: RunSpec, cells: Sequence[Cell], jobs: int, watch: Callable[[Progress], None]
) -> None:
    """Train cells on one GPU, each in a thread with a stream of its own.

    A replayed step is a long line of tiny kernels; lines of several cells run abreast.
    """

    def own_stream() -> None:
        torch.cuda.set_stream(torch.cuda.Stream())

    with (
        stop_requests() as stopped,
        ThreadPoolExecutor(max(1, jobs), initializer=own_stream) as pool,
    ):
        failed = threading.Event()

        def work(cell: Cell) -> None:
            if failed.is_set() or stopped():
                return
            try:
                train_cell(order, cell, watch, lambda: failed.is_set() or stopped())
            except BaseException:
                failed.set()
                raise

        futures = [pool.submit(work, cell) for cell in cells]
        errors = [error for future in futures if (error := future.exception()) is not None]
        for error in sorted(errors, key=lambda e: isinstance(e, Interrupted)):
            raise error  # what went wrong, before what was stopped because of it
        if stopped():
            raise Interrupted


def run_in_processes(
    order: RunSpec, names: list[str], jobs: int, threads: int, watch: Callable[[Progress], None]
) -> None:
    """Train cells in ``jobs`` processes of ``threads`` threads each.

    Small networks gain little from a second thread; a second cell costs nothing. Each worker
    has a pipe of its own, so that one that dies cannot lock the others out.
    """
    context = multiprocessing.get_context("spawn")
    waiting = list(names)
    workers: dict[Connection, BaseProcess] = {}
    failure: Exception | None = None
    ending = False
    with stop_requests() as stopped:
        # Ctrl-C in a terminal reaches the whole group: workers never see it and wait for our word.
        with blocked_signal(signal.SIGINT):
            for _ in range(min(jobs, len(names))):
                ours, theirs = context.Pipe()
                process = context.Process(target=_work, args=(order, threads, theirs), daemon=True)
                process.start()
                theirs.close()  # so that the end of the worker is the end of its messages
                workers[ours] = process
        while workers:
            for pipe in wait(list(workers), timeout=0.2):
                assert isinstance(pipe, Connection)
                try:
                    message = pipe.recv()
                except EOFError:
                    worker = workers.pop(pipe)
                    worker.join()
                    if worker.exitcode and failure is None and not (ending or stopped()):
                        failure = RuntimeError(f"a worker ended with exit code {worker.exitcode}")
                    continue
                if message is READY:
                    pipe.send(waiting.pop(0) if waiting else None)
                elif isinstance(message, Exception):
                    failure = failure or message
                else:
                    watch(message)
            if (stopped() or failure is not None) and not ending:
                ending = True
                waiting.clear()
                for worker in workers.values():
                    worker.terminate()  # it saves its cell, then ends
    if failure is not None:
        raise failure
    if stopped():
        raise Interrupted


READY = None  # a worker asks for its next cell; the answer None sends it home


def _work(order: RunSpec, threads: int, pipe: Connection) -> None:
    """The life of a worker: ask for a cell, train it, until there is none."""
    torch.set_num_threads(threads)
    with stop_requests(signal.SIGTERM) as stopped:
        try:
            experiment = catalog.find(order.experiment, order.data)
            cells = {cell.name: cell for cell in experiment.cells(order.scale)}
            pipe.send(READY)
            while (name := pipe.recv()) is not None:
                train_cell(order, cells[name], pipe.send, stopped)
                pipe.send(READY)
        except Interrupted:
            pass
        except InputError as error:
            pipe.send(error)
        except Exception:  # told to the parent, which treats it as the bug it is
            pipe.send(RuntimeError(f"in a worker:\n{traceback.format_exc()}"))
