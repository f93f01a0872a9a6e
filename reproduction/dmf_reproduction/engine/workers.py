"""Train cells side by side: in streams of one GPU, or in processes."""

import multiprocessing
import signal
import threading
import traceback
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess

import torch

from discrete_meanflow.errors import InputError, Interrupted
from discrete_meanflow.run.progress import OnProgress
from discrete_meanflow.signals import stop_requests
from dmf_reproduction import catalog
from dmf_reproduction.engine.experiment import AnyCell
from dmf_reproduction.engine.spec import RunSpec
from dmf_reproduction.engine.train_cell import train_cell

READY = None  # a worker asks for its next cell; the answer None ends it


def run_in_streams(
    spec: RunSpec, cells: Sequence[AnyCell], jobs: int, on_progress: OnProgress
) -> None:
    """Train cells on one GPU, each in a thread with its own CUDA stream.

    A captured step is a long sequence of tiny kernels; sequences of several cells overlap.
    """

    def own_stream() -> None:
        torch.cuda.set_stream(torch.cuda.Stream())

    with (
        stop_requests() as stopped,
        ThreadPoolExecutor(max(1, jobs), initializer=own_stream) as pool,
    ):
        failed = threading.Event()

        def work(cell: AnyCell) -> None:
            if failed.is_set() or stopped():
                return
            try:
                train_cell(spec, cell, on_progress, lambda: failed.is_set() or stopped())
            except BaseException:
                failed.set()
                raise

        futures = [pool.submit(work, cell) for cell in cells]
        errors = [error for future in futures if (error := future.exception()) is not None]
        for error in sorted(errors, key=lambda e: isinstance(e, Interrupted)):
            raise error  # the cause first, not the interruptions that it caused
        if stopped():
            raise Interrupted


def run_in_processes(
    spec: RunSpec,
    names: list[str],
    jobs: int,
    threads: int,
    on_progress: OnProgress,
) -> None:
    """Train cells in ``jobs`` processes of ``threads`` threads each.

    Small networks gain little from a second thread; a second cell costs nothing. Each worker
    has its own pipe, so that a worker that dies cannot block the others.
    """
    waiting = list(names)
    failure: Exception | None = None
    ending = False
    with stop_requests() as stopped:
        workers = _start(spec, min(jobs, len(names)), threads)
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
                    on_progress(message)
            if (stopped() or failure is not None) and not ending:
                ending = True
                waiting.clear()
                for worker in workers.values():
                    worker.terminate()  # it saves its cell, then ends
    if failure is not None:
        raise failure
    if stopped():
        raise Interrupted


def _start(spec: RunSpec, count: int, threads: int) -> dict[Connection, BaseProcess]:
    """Start workers. They never receive Ctrl-C, which a terminal sends to the whole group."""
    context = multiprocessing.get_context("spawn")
    workers: dict[Connection, BaseProcess] = {}
    # Blocked, not ignored: a Ctrl-C that arrives meanwhile must reach this process.
    resource_tracker.ensure_running()  # started with the first process, it would unblock signals
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        for _ in range(count):
            ours, theirs = context.Pipe()
            process = context.Process(target=_work, args=(spec, threads, theirs), daemon=True)
            process.start()
            theirs.close()  # the pipe then ends with the worker
            workers[ours] = process
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return workers


def _work(spec: RunSpec, threads: int, pipe: Connection) -> None:
    """Ask for cells and train them until there are no more."""
    torch.set_num_threads(threads)
    with stop_requests(signal.SIGTERM) as stopped:
        try:
            experiment = catalog.find(spec.experiment, spec.data)
            cells = {cell.name: cell for cell in experiment.cells(spec.scale)}
            pipe.send(READY)
            while (name := pipe.recv()) is not None:
                train_cell(spec, cells[name], pipe.send, stopped)
                pipe.send(READY)
        except Interrupted:
            pass
        except InputError as error:
            pipe.send(error)
        except Exception:  # the parent process reports it as a bug
            pipe.send(RuntimeError(f"in a worker:\n{traceback.format_exc()}"))
