"""Where numba keeps the compiled planner: beside the package, or where this user can write.

A service user often can write neither beside the package nor in a home directory, and numba then refuses to import the
kernels at all. What is read from the cache is run, so a folder under the temporary directory is used only if it belongs
to this user and nobody else can write to it.
"""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

VARIABLE = "NUMBA_CACHE_DIR"
PLANNER = Path(__file__).parents[1] / "planner"


def find_cache(planner: Path = PLANNER) -> None:
    """Tell numba where to keep what it compiles, before it is imported; what the user has said stays."""
    if os.environ.get(VARIABLE) or _writable(planner / "__pycache__"):
        return
    for folder in (_home_cache(), Path(tempfile.gettempdir(), f"latecomer-compiled-{os.getuid()}")):
        if folder is not None and _writable(folder) and _own(folder):
            os.environ[VARIABLE] = str(folder)
            return
    os.environ[VARIABLE] = tempfile.mkdtemp(prefix="latecomer-compiled-")


def compiled_before(planner: Path = PLANNER) -> bool:
    """Whether kernels have been compiled here since their source was changed."""
    said = os.environ.get(VARIABLE)
    cache = Path(said).rglob("*.nbi") if said else planner.rglob("*.nbi")
    compiled = max((file.stat().st_mtime for file in cache), default=0.0)
    written = max((file.stat().st_mtime for file in planner.rglob("*_kernels.py")), default=0.0)
    return compiled > written


def _home_cache() -> Path | None:
    """The user's cache; None: there is no home."""
    if said := os.environ.get("XDG_CACHE_HOME"):
        return Path(said, "latecomer", "compiled")
    try:
        return Path.home() / ".cache" / "latecomer" / "compiled"
    except RuntimeError:
        return None


def _writable(folder: Path) -> bool:
    """Try it: the bits of a mode say nothing about a file system that is mounted read-only."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError:
        return False
    return True


def _own(folder: Path) -> bool:
    found = folder.lstat()
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o022
