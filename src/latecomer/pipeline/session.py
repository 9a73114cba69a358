"""The one place that makes a SparkSession: embedded by default, on a cluster or behind Spark Connect if asked.

Theory of operation. Spark reads its environment once, when its Java process starts: which Java, how it logs, which
Python its workers run. All of that is set here and put back when the session ends, and the Java process ends with it,
so that nothing of a session outlives it. Scratch files are in a folder of their own that is removed.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.resources import as_file, files
from pathlib import Path

import msgspec
from pyspark.sql import SparkSession

from latecomer.model.errors import LatecomerError, SettingsError
from latecomer.pipeline.failure import first_line, reason
from latecomer.pipeline.interrupt import Interrupts, interrupts
from latecomer.pipeline.java import find_java, java_home
from latecomer.pipeline.reachable import check_reachable

LOCAL = "local[*]"
CONNECT = "sc://"
MASTER = re.compile(r"local|local\[(\*|[1-9]\d*)\]|spark://[^\s/]+|sc://\S+|yarn|k8s://\S+")
MEMORY = re.compile(r"[1-9]\d*[mg]")
LOOPBACK = "127.0.0.1"
RUNTIME = {
    # Spark refuses timestamps in nanoseconds, which pandas writes, unless they are taken as numbers.
    "spark.sql.legacy.parquet.nanosAsLong": "true",
}
"""What any session is told, also one of Spark Connect."""
QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Options of Java for sessions of some seconds: its second compiler costs more there than it brings."""
STEADY = "-XX:+UseParallelGC"
"""For longer ones: nobody waits for a single pause, and what Java's own choice does to keep pauses short costs more."""
SMALL_BYTES = 64_000_000
"""Of input, up to which a session is quick: five million check-ins, where both take as much processor time."""
JAVA_OPTIONS = "spark.driver.extraJavaOptions"
LEAN = {
    # For every column Spark would be told, and remember, which line of Python asked for it.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    # Nor does it check its own plan after every rule.
    "spark.sql.lightweightPlanChangeValidation": "false",
}
"""What Spark does to find faults in programs and in itself."""


class SparkSettings(msgspec.Struct, frozen=True):
    """Where Spark runs."""

    master: str = LOCAL
    """`local[4]`, `spark://host:7077`, `yarn`, `k8s://…`, or `sc://host:15002` for Spark Connect."""
    memory: str = "4g"
    """Of the driver; with a local master that is all there is."""
    conf: Mapping[str, str] = {}
    """Anything else that Spark can be told; comes last, and wins."""
    scratch: Path | None = None
    """Where Spark puts what does not fit into memory."""
    input_bytes: int | None = None
    """How much will be read; None: not known, or a stream without end."""

    def check(self) -> None:
        """Raise a SettingsError that names the option."""
        if MASTER.fullmatch(self.master) is None:
            told = f"{self.master!r} is no Spark; try local[*], spark://HOST:7077, yarn, or sc://HOST:15002"
            raise SettingsError("--master", told)
        if MEMORY.fullmatch(self.memory) is None:
            raise SettingsError("--memory", f"{self.memory!r} is no size; write megabytes or gigabytes: 900m, 4g")

    @property
    def local(self) -> bool:
        return self.master.startswith("local")

    @property
    def small(self) -> bool:
        """Whether the session will be over before Java has compiled much."""
        return self.input_bytes is not None and self.input_bytes <= SMALL_BYTES


@contextmanager
def session(settings: SparkSettings | None = None) -> Iterator[SparkSession]:
    """A session for as long as the block runs."""
    settings = settings or SparkSettings()
    settings.check()
    check_reachable(settings.master)  # verbs ask this before, notebooks do not
    with interrupts() as told:
        if settings.master.startswith(CONNECT):
            with _connected(settings) as spark:
                yield spark
        else:
            with _embedded(settings, told) as spark:
                yield spark


@contextmanager
def _embedded(settings: SparkSettings, told: Interrupts) -> Iterator[SparkSession]:
    folder = Path(tempfile.mkdtemp(prefix="latecomer-spark-", dir=settings.scratch))
    try:
        with as_file(files("latecomer.pipeline") / "conf") as conf, _environment(_variables(settings, folder, conf)):
            with told.starting():
                spark = _started(settings, folder)
            told.install()
            try:
                yield spark
            finally:
                _ended(spark)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def options(settings: SparkSettings, scratch: Path) -> dict[str, str]:
    """What a session is told, beside where it runs."""
    fixed = {
        "spark.driver.memory": settings.memory,
        "spark.local.dir": str(scratch),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.adaptive.enabled": "true",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.parquet.compression.codec": "zstd",
        JAVA_OPTIONS: QUICK if settings.small else STEADY,
        **RUNTIME,
        **LEAN,
        "spark.hadoop.parquet.page.verify-checksum.enabled": "true",
        "spark.hadoop.mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    if settings.local:
        fixed |= {
            "spark.driver.host": LOOPBACK,
            "spark.driver.bindAddress": LOOPBACK,
            "spark.sql.shuffle.partitions": str(cores(settings.master)),
        }
        if settings.small:  # nothing to be learned between the stages of a query, each of which would be a job
            fixed["spark.sql.adaptive.enabled"] = "false"
    return {**fixed, **settings.conf}


def cores(master: str) -> int:
    """Of a local master."""
    number = master.removeprefix("local").strip("[]")
    if number == "*":
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return int(number or 1)


def _variables(settings: SparkSettings, folder: Path, conf: Path) -> dict[str, str]:
    found = {
        "JAVA_HOME": str(java_home(find_java(), folder)),
        "PYSPARK_PYTHON": os.environ.get("PYSPARK_PYTHON", sys.executable),
        "SPARK_CONF_DIR": os.environ.get("SPARK_CONF_DIR", str(conf)),
    }
    if settings.local:
        found["SPARK_LOCAL_IP"] = LOOPBACK
    return found


def _started(settings: SparkSettings, folder: Path) -> SparkSession:
    builder = SparkSession.builder.master(settings.master).appName("latecomer")
    for key, value in options(settings, folder).items():
        builder = builder.config(key, value)
    try:
        spark = builder.getOrCreate()
    except Exception as error:  # whatever Java, Py4J or the cluster say
        raise LatecomerError(
            f"Spark does not start on {settings.master}: {reason(error)}; check --master and --memory"
        ) from error
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def _ended(spark: SparkSession) -> None:
    context = spark.sparkContext
    gateway = context._gateway
    with suppress(Exception):  # the Java process may be gone, as after Ctrl-C
        spark.stop()
    if gateway is not None:
        with suppress(Exception):
            gateway.shutdown()
        process = getattr(gateway, "proc", None)
        if process is not None:
            with suppress(Exception):
                process.stdin.close()  # it ends when nobody listens any more
            process.wait()
    # The next session of this process has a Java process of its own, also if this one ended by itself.
    kind = type(context)
    kind._gateway = kind._jvm = kind._active_spark_context = None
    SparkSession._instantiatedSession = None


def java_pid(spark: SparkSession) -> int | None:
    """The Java process of an embedded session; None where it is somebody else's."""
    gateway = getattr(getattr(spark, "_sc", None), "_gateway", None)
    process = getattr(gateway, "proc", None)
    return None if process is None else process.pid


@contextmanager
def _connected(settings: SparkSettings) -> Iterator[SparkSession]:
    builder = SparkSession.builder.remote(settings.master)
    try:
        spark = builder.getOrCreate()
        spark.conf.set("spark.sql.session.timeZone", "UTC")
        for key, value in {**RUNTIME, **settings.conf}.items():
            spark.conf.set(key, value)
    except Exception as error:
        raise LatecomerError(f"{settings.master} does not answer as Spark Connect: {first_line(error)}") from error
    try:
        yield spark
    finally:
        with suppress(Exception):
            spark.stop()


@contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
