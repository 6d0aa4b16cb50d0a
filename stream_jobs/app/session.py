"""The Spark session: one place for its jars, its clock and its memory."""

import ctypes
import os
import shlex
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, chdir, contextmanager, suppress
from functools import cache as once
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

import infra
from infra.clients.locks import locked
from infra.clients.log import refused
from infra.contract.errors import ConfigError
from infra.settings.settings import Settings
from infra.stack.downloads import cache
from stream_jobs.app import environment

CHECKPOINT_FILES: Final = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)
FILE_MANAGER: Final = "spark.sql.streaming.checkpointFileManagerClass"
LOCAL_FILES: Final = "com.globalmentor.apache.hadoop.fs.BareLocalFileSystem"
"""Without a native library Hadoop's own local files start chmod and readlink as programs, tens a batch."""
LOCAL: Final = "local[1]"
SUBMITTED: Final = "PYSPARK_GATEWAY_PORT"  # in the environment of a program that spark-submit has started
PLACES: Final = ("checkpoints", "lookups")
JAVA_OPTIONS: Final = "spark.driver.extraJavaOptions"
ALIVE: Final = "alive"
RETURN_S: Final = 10.0
OLDEST: Final = 2  # generation of a whole collection of Python's garbage
_held: Final = ExitStack()  # locks until this process ends
COMPILER: Final = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"
"""Java's quick compiler only, with room for what it makes (its own default, 48 MiB, gets full).

The second compiler took 40 % of the processor time and was not at its end after 600,000 frames, and all it
gave was tasks that are a fifth faster: README, "Java". ``jobs.java_options`` brings it back.
"""


def build_session(
    settings: Settings, name: str, memory_mb: int, master: str, extra_conf: Mapping[str, str]
) -> SparkSession:
    """A session called ``name`` with the Kafka connector on its class path; ``extra_conf`` wins, and what
    spark-submit was given, its master too, wins over that.

    Nothing secret belongs here: Spark shows its configuration on the command line and in its web page.
    Raises ServiceError where the connector was never fetched, or a jar is not what was fetched.
    """
    downloads = settings.paths.cache
    connector = cache.jars(downloads, "spark")[0].parent
    cache.verify(connector, cache.pyspark_jars(), *cache.class_archives(downloads), note=refused)
    given: dict[str, str] = {}
    if submitted := SUBMITTED in os.environ:
        SparkContext._ensure_initialized()
        given = dict(SparkConf().getAll())
    master = given.get("spark.master", master)
    conf = common_conf(settings) | {"spark.driver.memory": f"{memory_mb}m"}
    conf |= (_on_this_machine if master.startswith("local") else _on_a_cluster)(settings)
    conf |= {**extra_conf, JAVA_OPTIONS: java_options(settings, extra_conf)}
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_HOME", str(cache.pyspark_jars().parent))  # as the class archive names it
    os.environ.setdefault("MALLOC_ARENA_MAX", "2")  # one a thread holds three times as much for RocksDB
    builder = SparkSession.builder.appName(name).master(master).config(map={**conf, **given})
    with chdir(Path.cwd() if submitted else _scratch(settings)):
        if settings.jobs.environment and not master.startswith("local"):
            _write_python(Path(os.environ["PYSPARK_PYTHON"]))
        session = builder.getOrCreate()
    session.sparkContext.setLogLevel("WARN")
    return session


def _write_python(place: Path) -> Path:
    """The Python of workers on the driver's machine; also where Spark asks the operator for its state, in the
    folder that Java was started in. Without the zips that Spark puts on its path PySpark is the installed,
    compiled one: 1.2 s of CPU less at each start.
    """
    if not place.exists():
        path = "${PYTHONPATH#*/py4j-*-src.zip:}"
        python = shlex.quote(sys.executable)
        place.write_text(f'#!/bin/sh\nexport PYTHONPATH="{path}"\nexec {python} "$@"\n')
        place.chmod(0o755)
    return place


def _on_this_machine(settings: Settings) -> dict[str, str]:
    """Tasks run in this process and see what it sees."""
    os.environ["PYSPARK_PYTHON"] = str(_write_python(_scratch(settings) / "python3"))
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    return {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.authenticate": "true",  # by a secret that it makes at each start and keeps to itself
        "spark.local.dir": str(_scratch(settings)),
        "spark.hadoop.fs.file.impl": LOCAL_FILES,
        # Of a URL, Spark chooses what renames at once there.
        **({} if "://" in settings.paths.place("checkpoints") else {FILE_MANAGER: CHECKPOINT_FILES}),
    }


def _on_a_cluster(settings: Settings) -> dict[str, str]:
    """Executors are other hosts: the driver hands out the jars and, where there is one, the archive of the
    workers' environment; without one they have the driver's paths (one container image).

    Raises ConfigError where state or lookups would lie on each host by itself.
    """
    paths = settings.paths
    if own := [n for n in PLACES if "://" not in paths.place(n) and not getattr(paths, n)]:
        names = " and ".join(f"ODOGRAPH_PATHS_{name.upper()}" for name in own)
        raise ConfigError(
            f"{names}: on a Spark cluster a URL, or a folder that all hosts share, is wanted: workers would "
            "look for them in a home of their own"
        )
    conf = {
        "spark.jars": ",".join(map(str, cache.jars(paths.cache, "spark"))),
        "spark.executor.extraJavaOptions": f"{COMPILER} -XX:+UseSerialGC {settings.jobs.java_options}",
    }
    os.environ["PYSPARK_PYTHON"] = sys.executable
    if settings.jobs.environment:
        os.environ["PYSPARK_PYTHON"] = f"./{environment.LAUNCHER.name}"
        conf |= environment.shipped(settings.jobs, _scratch(settings))
    return conf


@contextmanager
def spark_when_asked(
    settings: Settings, name: str, memory_mb: int, master: str | None = None
) -> Iterator[Callable[[], SparkSession]]:
    """Makes the session of a batch command when it is first called for; it ends with the block."""

    with ExitStack() as ends:

        @once
        def session() -> SparkSession:
            conf = {"spark.sql.shuffle.partitions": str(settings.recompute.parts)}
            made = build_session(settings, name, memory_mb, master or settings.jobs.master, conf)
            ends.callback(made.stop)
            return made

        yield session


def java_options(settings: Settings, conf: Mapping[str, str]) -> str:
    """Options of the Java machine: all applications', this one's, the user's; the last one wins."""
    ready_made = " ".join(cache.class_options(settings.paths.cache, "spark"))
    scratch = f'"-Djava.io.tmpdir={_scratch(settings)}"'
    given = (COMPILER, ready_made, scratch, conf.get(JAVA_OPTIONS), settings.jobs.java_options)
    return " ".join(filter(None, given))


def _scratch(settings: Settings) -> Path:
    return _own_folder(settings.paths.home.absolute() / "run" / "spark")


@once
def _own_folder(every: Path) -> Path:
    """This process's folder for what lives no longer than it; those that killed ones left are removed.

    A lock tells who lives, not a pid: containers may share a home and not see each other's processes.
    """
    with locked(every / ".lock"):
        for left in every.glob("*/"):
            with suppress(BlockingIOError), locked(left / ALIVE, busy=BlockingIOError()):
                shutil.rmtree(left, ignore_errors=True)
        ours = Path(tempfile.mkdtemp(dir=every))
        _held.enter_context(locked(ours / ALIVE))
    return ours


def common_conf(settings: Settings) -> dict[str, str]:
    """Settings that every application shares."""
    places = {
        "spark.executorEnv.PYTHONPATH": str(Path(infra.__file__).parents[1]),
        "spark.sql.warehouse.dir": str(_scratch(settings) / "warehouse"),
        "spark.driver.extraClassPath": ":".join(map(str, cache.jars(settings.paths.cache, "spark"))),
    }
    return conf_of(__file__) | places


def conf_of(module: str) -> dict[str, str]:
    """Spark's settings in the file beside a module, a line of name and value each."""
    lines = Path(module).with_suffix(".conf").read_text().splitlines()
    return dict(line.split(maxsplit=1) for line in lines if line and not line.startswith("#"))


class MemoryReturn:
    """Gives free memory back to the system behind a whole collection, at most every RETURN_S; one of
    ``gc.callbacks``, which says what these are called with.
    """

    def __init__(self) -> None:
        self._trim = ctypes.CDLL(None).malloc_trim
        self._due_s = 0.0

    def __call__(self, phase: str, info: dict[str, Any]) -> None:
        now_s = time.monotonic()
        if phase == "stop" and info["generation"] == OLDEST and now_s >= self._due_s:
            self._due_s = now_s + RETURN_S
            self._trim(0)
            pa.default_memory_pool().release_unused()
