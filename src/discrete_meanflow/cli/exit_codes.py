"""How a command ends: its exit code and its last line."""

import datetime
import errno
import io
import os
import sys
import tempfile
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from discrete_meanflow.errors import InputError, Interrupted
from discrete_meanflow.run.progress import say
from discrete_meanflow.signals import sigterm_as_interrupt

BAD_INPUT, INTERNAL_ERROR, STOPPED = 2, 70, 130
NO_MEMORY = ("out of memory", "can't allocate memory", "cannot allocate memory")


def run_guarded(action: Callable[[], object]) -> int:
    """Run a command; return 0 (done), 2 (bad input), 70 (internal error) or 130 (stopped).

    Bad input, errors of the system and lack of memory print one line. An internal error writes its
    traceback to a log. A command whose reader has left, as in ``dmf --help | head``, is done.
    """
    try:
        with sigterm_as_interrupt():
            action()
            print(end="", flush=True)
    except BrokenPipeError:
        _discard_output()
    except InputError as error:
        return _fail(str(error), BAD_INPUT)
    except Interrupted as stop:
        resume = str(stop) or "run the same command again"
        return _fail(f"stopped; all progress is saved. To resume: {resume}.", STOPPED)
    except KeyboardInterrupt as stop:
        resume = f" To resume from the last checkpoint: {stop}." * bool(str(stop))
        return _fail(f"stopped at once.{resume}", STOPPED)
    except Exception as error:
        if _out_of_memory(error):
            return _fail(
                "not enough memory; use a smaller --batch, --size or -n, or a larger --accumulate "
                "(these need a new run: choose another --out)",
                BAD_INPUT,
            )
        if isinstance(error, OSError):
            return _fail(_system_error(error), BAD_INPUT)
        log = _write_log(traceback.format_exc())
        return _fail(f"this is a bug in dmf, not in your input; see {log}", INTERNAL_ERROR)
    return 0


def _fail(message: str, code: int) -> int:
    say(f"dmf: {message}")
    return code


def _system_error(error: OSError) -> str:
    """What the system says about a file, or about standard output, which has no name."""
    reason = error.strerror or error
    if error.filename is not None:
        return f"cannot use {error.filename}: {reason}"
    _discard_output()
    return f"cannot print: {reason}"


def _discard_output() -> None:
    """Drop what standard output still holds: Python writes it at its end."""
    with suppress(io.UnsupportedOperation):  # captured in a test or a notebook
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _out_of_memory(error: Exception) -> bool:
    """Recognise PyTorch's errors by their message, since torch may not be loaded."""
    if isinstance(error, OSError):
        return error.errno == errno.ENOMEM
    from_torch = isinstance(error, RuntimeError) and any(
        words in str(error).lower() for words in NO_MEMORY
    )
    return isinstance(error, MemoryError) or from_torch


def _write_log(text: str) -> Path:
    stamp = datetime.datetime.now().strftime("%Y%m%d-%H%M%S")
    with tempfile.NamedTemporaryFile(
        "w", prefix=f"dmf-{stamp}-", suffix=".log", delete=False
    ) as file:
        file.write(" ".join(sys.argv) + "\n" + text)
    return Path(file.name)
