"""How a command ends: its exit codes, and what it says."""

import datetime
import errno
import sys
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path

from discrete_meanflow.errors import InputError, Interrupted
from discrete_meanflow.signals import sigterm_as_interrupt

BAD_INPUT, OUR_BUG, STOPPED = 2, 70, 130


def run_guarded(action: Callable[[], object]) -> int:
    """0 done, 2 bad input or too large a one (one line), 70 our bug (a log), 130 stopped."""
    try:
        with sigterm_as_interrupt():
            action()
    except InputError as error:
        print(f"dmf: {' '.join(str(error).split())}", file=sys.stderr)
        return BAD_INPUT
    except (Interrupted, KeyboardInterrupt) as stopped:
        saved = isinstance(stopped, Interrupted)
        how = "; all is saved" if saved else " at once"
        on = str(stopped) or ("run the same command again" if saved else "")
        print(f"dmf: stopped{how}." + f" To go on: {on}." * bool(on), file=sys.stderr)
        return STOPPED
    except Exception as error:
        if _out_of_memory(error):
            less = "a smaller --batch, --size or -n, or more --accumulate, takes less"
            print(
                f"dmf: there is not enough memory; {less} (to train anew, with another --out)",
                file=sys.stderr,
            )
            return BAD_INPUT
        log = _write_log(traceback.format_exc())
        print(f"dmf: this is a bug in dmf, not in your input; see {log}", file=sys.stderr)
        return OUR_BUG
    return 0


def _out_of_memory(error: Exception) -> bool:
    """Torch's own are told by their words: it takes a second to load, and may not be."""
    if isinstance(error, OSError):
        return error.errno == errno.ENOMEM
    told = ("out of memory", "can't allocate memory", "cannot allocate memory")
    torchs = isinstance(error, RuntimeError) and any(each in str(error).lower() for each in told)
    return isinstance(error, MemoryError) or torchs


def _write_log(text: str) -> Path:
    stamp = datetime.datetime.now().strftime("%Y%m%d-%H%M%S")
    with tempfile.NamedTemporaryFile(
        "w", prefix=f"dmf-{stamp}-", suffix=".log", delete=False
    ) as file:
        file.write(" ".join(sys.argv) + "\n" + text)
    return Path(file.name)
