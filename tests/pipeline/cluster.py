"""A standalone Spark on loopback from the installed PySpark: a master and workers, or a Connect server.

Everything that is started here, and whatever that starts in turn, carries a mark in its environment, by which what is
left at the end is found.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib.resources import as_file, files
from pathlib import Path
from uuid import uuid4

import pyspark

from latecomer.pipeline.java import find_java, java_home

LOOPBACK = "127.0.0.1"
HOME = Path(pyspark.__file__).parent
MARK = "LATECOMER_TEST_CLUSTER"
PATIENCE_S = 120.0
MASTER = "org.apache.spark.deploy.master.Master"
WORKER = "org.apache.spark.deploy.worker.Worker"
CONNECT = "org.apache.spark.sql.connect.service.SparkConnectServer"
LIGHT = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Java that starts quickly, for jobs that are over before it would have been fast."""
DRIVER = {
    "spark.driver.host": LOOPBACK,
    "spark.driver.bindAddress": LOOPBACK,
    "spark.executor.memory": "600m",
    "spark.executor.cores": "1",
    "spark.driver.extraJavaOptions": LIGHT,
    "spark.executor.extraJavaOptions": LIGHT,
    "spark.sql.shuffle.partitions": "2",
}
"""What a session on such a cluster has to be told."""


@dataclass(slots=True)
class Started:
    """Java processes with a log each."""

    folder: Path
    environment: dict[str, str]
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start(self, name: str, command: Sequence[str], ready: str) -> re.Match[str]:
        """Start a program, and wait until its log says that it is ready."""
        log = self.folder / f"{name}.log"
        with log.open("wb") as out:
            self.processes[name] = subprocess.Popen(
                command, env=self.environment, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True
            )
        end = time.monotonic() + PATIENCE_S
        while (found := re.search(ready, log.read_text(errors="replace"))) is None:
            assert self.processes[name].poll() is None, log.read_text(errors="replace")
            assert time.monotonic() < end, log.read_text(errors="replace")
            time.sleep(0.05)
        return found

    def kill(self, name: str) -> None:
        """At once, with all that it has started."""
        process = self.processes.pop(name)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@contextmanager
def started(folder: Path) -> Iterator[Started]:
    """Whatever is started within is gone afterwards."""
    folder.mkdir()
    mark = uuid4().hex
    with as_file(files("latecomer.pipeline") / "conf") as quiet:
        logging = folder / "conf"
        logging.mkdir()
        text = (quiet / "log4j2.properties").read_text().replace("rootLogger.level = error", "rootLogger.level = info")
        (logging / "log4j2.properties").write_text(text)
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYTEST_"))},
        "JAVA_HOME": str(java_home(find_java(), folder)),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_HOME": str(HOME),
        "SPARK_CONF_DIR": str(logging),
        "SPARK_LOCAL_IP": LOOPBACK,
        "SPARK_LOCAL_DIRS": str(folder / "scratch"),
        "SPARK_DAEMON_MEMORY": "640m",  # of masters and workers, and of the Connect server, which needs that much
        "SPARK_DAEMON_JAVA_OPTS": LIGHT,
        MARK: mark,
    }
    running = Started(folder, environment)
    try:
        yield running
    finally:
        for name in list(running.processes):
            running.kill(name)
        _end(mark)


def start_cluster(running: Started, workers: int) -> str:
    """A master and so many workers of a core each; the master's address."""
    run = [str(HOME / "bin" / "spark-class")]
    found = running.start(
        "master",
        [*run, MASTER, "-h", LOOPBACK, "-p", "0", "--webui-port", "0"],
        r"Starting Spark master at (spark://\S+)",
    )
    for number in range(workers):
        command = [*run, WORKER, "-c", "1", "-m", "1g", "-h", LOOPBACK, "--webui-port", "0"]
        name = f"worker{number}"
        running.start(
            name, [*command, "-d", str(running.folder / name), found[1]], "Successfully registered with master"
        )
    return found[1]


def start_connect(running: Started) -> str:
    """A Connect server with a Spark of its own; its address."""
    conf = {
        "spark.connect.grpc.binding.address": LOOPBACK,
        "spark.connect.grpc.binding.port": "0",
        "spark.driver.extraJavaOptions": LIGHT,
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(running.folder / "warehouse"),
    }
    told = [word for key, value in conf.items() for word in ("--conf", f"{key}={value}")]
    command = [str(HOME / "bin" / "spark-submit"), "--master", "local[2]", *told]
    found = running.start("connect", [*command, "--class", CONNECT, "spark-internal"], r"started at: \S*?:(\d+)")
    return f"sc://{LOOPBACK}:{found[1]}"


def left_by(mark: str) -> list[int]:
    """The processes that carry a mark."""
    found = []
    for place in Path("/proc").iterdir():
        if place.name.isdecimal() and int(place.name) != os.getpid():
            with suppress(OSError):
                if f"{MARK}={mark}".encode() in (place / "environ").read_bytes().split(b"\0"):
                    found.append(int(place.name))
    return found


def _end(mark: str) -> None:
    """Executors and their Pythons see that nobody is there any more, and end by themselves; or else."""
    end = time.monotonic() + 5
    while left_by(mark) and time.monotonic() < end:
        time.sleep(0.1)
    for process in left_by(mark):
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
