"""Ctrl-C while Spark works: the Java process ends at once, and nobody prints what they think of that.

pyspark's own handler asks Java to cancel all jobs, over the connection that is in use at that moment; what follows are
pages of traces. Here Java is ended first, so that nothing is written any more when the folders of a job are removed.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from subprocess import Popen
from types import FrameType
from typing import Any

from pyspark import java_gateway


@dataclass(slots=True)
class Interrupts:
    """What happens on Ctrl-C while a session is open."""

    java: Popen[Any] | None = None
    """The process to end; None: it has not started, or is not ours."""
    happened: bool = False
    before: Any = None
    """The handler that was there, once ours is installed."""

    def install(self) -> None:
        """Take over Ctrl-C; again after Spark has started, because pyspark installs its own handler then."""
        if threading.current_thread() is threading.main_thread():
            old = signal.signal(signal.SIGINT, self._interrupted)
            self.before = self.before or old

    @contextmanager
    def starting(self) -> Iterator[None]:
        """While pyspark starts Java: get hold of the process from its first moment, and keep Ctrl-C away from it.

        pyspark hands the process out only when it answers; until then nobody could end it. In a session of its own
        the terminal's Ctrl-C does not reach the Python workers that Java starts, each of which would print a trace.
        """

        def start(*arguments: Any, **options: Any) -> Popen[Any]:
            self.java = Popen(*arguments, **options, start_new_session=True)
            return self.java

        names = vars(java_gateway)
        before = names["Popen"]
        names["Popen"] = start
        try:
            yield
        finally:
            names["Popen"] = before

    def restore(self) -> None:
        if self.before is not None:
            signal.signal(signal.SIGINT, self.before)

    def _interrupted(self, _number: int, _frame: FrameType | None) -> None:
        self.happened = True
        logging.disable(logging.CRITICAL)  # py4j logs a trace for every call that did not come back
        if self.java is not None:
            with suppress(OSError):
                os.killpg(self.java.pid, signal.SIGKILL)  # with its workers, and with what is only starting it
                self.java.wait()
        raise KeyboardInterrupt


@contextmanager
def interrupts() -> Iterator[Interrupts]:
    """For as long as a session is open or being opened."""
    found, level = Interrupts(), logging.root.manager.disable
    found.install()
    try:
        yield found
    except Exception:
        if found.happened:
            # What is cleaned up on the way out asks a Java process that is gone; that it fails tells nobody anything.
            raise KeyboardInterrupt from None
        raise
    finally:
        found.restore()
        if not found.happened:
            logging.disable(level)  # else threads that are still there would go on logging until the process ends
