"""What went wrong inside Spark, as one line.

An exception of Spark is a handle to an object of the Java process, so this must be asked while that process runs.
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError
from pyspark.errors import PySparkException

FAILURES = (PySparkException, Py4JError)
"""What Spark raises."""
CAUSES_MOST = 20
LENGTH_MOST = 600
_FRAME = re.compile(r"^(at |\.\.\. \d+ more|Driver stacktrace|JVM stacktrace)")
_CLASS = re.compile(r"^(Caused by: )?([a-z_]\w*\.)+[A-Z][\w$]*(Exception|Error)?: ")


def first_line(error: BaseException) -> str:
    """The first line of what an exception says."""
    with suppress(Exception):
        text = error.getMessage() if isinstance(error, PySparkException) else str(error)
        if found := _line(text):
            return found
    return type(error).__name__


def reason(error: BaseException) -> str:
    """What failed and, where Java knows more, what caused it."""
    if isinstance(error, Py4JNetworkError):
        return "its Java process has ended; if memory is short, give it more with --memory"
    java = _java(error)
    if java is None:
        return first_line(error)[:LENGTH_MOST]
    said: list[str] = []
    for line in _messages(java):
        if line and not any(line in earlier or earlier in line for earlier in said):
            said.append(line)
    # The first says what Spark was doing, the last why that failed; those between repeat one another.
    return ": ".join(dict.fromkeys(said[:1] + said[-1:]))[:LENGTH_MOST] or first_line(error)


def _java(error: BaseException) -> Any:
    """The exception in the Java process; None where there is none."""
    return error.java_exception if isinstance(error, Py4JJavaError) else getattr(error, "_origin", None)


def _messages(java: Any) -> list[str]:
    """The first line of an exception and of each of its causes."""
    found: list[str] = []
    with suppress(Exception):  # the Java process may end at any moment
        while java is not None and len(found) < CAUSES_MOST:
            found.append(_line(java.getMessage()) or str(java.getClass().getSimpleName()))
            java = java.getCause()
    return found


def _line(text: str | None) -> str:
    lines = (_CLASS.sub("", line.strip()) for line in (text or "").splitlines())
    return next((line for line in lines if line and not _FRAME.match(line)), "")
