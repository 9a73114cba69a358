"""The load generator: compiled on the spot, run on its core, and asked once per figure."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.book import BenchError
from bench.broker.measure import SOURCE as BROKER_SOURCE

SOURCE = Path(__file__).with_name("load.c")
LOAD_BOUND = 0.05
"""Below this share of waiting the generator itself may be what is measured."""
PATIENCE_SECONDS = 900.0


@dataclass(frozen=True, slots=True)
class Load:
    """The program, and the core it has for itself."""

    program: Path
    core: int | None

    def run(self, verb: str, port: int, *options: str | int | float, lines: Sequence[str] = ()) -> dict[str, Any]:
        """What it found out; a `BenchError` says what it found wrong."""
        command = [str(self.program), verb, "--port", str(port), *(str(option) for option in options)]
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        if self.core is not None:
            os.sched_setaffinity(process.pid, {self.core})
        try:
            text = "".join(f"{line}\n" for line in lines)
            output, complaint = process.communicate(text, timeout=PATIENCE_SECONDS)
        except BaseException:
            process.kill()
            process.communicate()
            raise
        if process.returncode != 0:
            raise BenchError(complaint.strip() or f"the load generator ended with {process.returncode}")
        found: dict[str, Any] = json.loads(output)
        return found


def compile_load(folder: Path, core: int | None) -> Load:
    program = folder / "load"
    command = [os.environ.get("CC", "cc"), "-O2", "-I", str(BROKER_SOURCE.parent), "-o", str(program), str(SOURCE)]
    try:
        made = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        raise BenchError(f"a C compiler is needed, and {command[0]} is none") from None
    if made.returncode:
        raise BenchError(f"load.c does not compile: {made.stderr.strip().splitlines()[-1]}")
    return Load(program, core)
