"""Where PyTorch keeps compiled code."""

import hashlib
import os
import platform
from pathlib import Path

PROCESSORS = Path("/proc/cpuinfo")
FEATURES = ("flags", "Features")  # names of the line of instruction sets, on x86 and on ARM


def keep_compiled_code() -> None:
    """Keep PyTorch's cache of compiled code between runs, in the user's cache folder.

    By default it is in the folder for temporary files. Compiling takes a minute on a GPU. Code is
    for the processor that compiled it, and machines may share a home folder: each kind of processor
    has its own cache.
    """
    caches = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    folder = os.path.join(caches, "discrete-meanflow", f"inductor-{processor()}")
    if is_ours(folder):
        os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", folder)


def is_ours(folder: str) -> bool:
    """Whether this user owns a folder and can write to it, or could create it.

    PyTorch runs the code in its cache, so another user must not have put it there.
    """
    while not os.path.lexists(folder) and folder != os.path.dirname(folder):
        folder = os.path.dirname(folder)
    if not (os.path.isdir(folder) and os.access(folder, os.W_OK | os.X_OK)):
        return False
    return not hasattr(os, "getuid") or os.stat(folder).st_uid == os.getuid()


def processor() -> str:
    """A short name of the instruction sets of this machine."""
    kind = platform.machine()
    try:
        with open(PROCESSORS) as file:
            kind += next((line for line in file if line.startswith(FEATURES)), "")
    except OSError:  # not Linux
        kind += platform.processor()
    return hashlib.sha256(kind.encode()).hexdigest()[:8]
