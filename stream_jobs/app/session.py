"""The Spark session: one place for its jars, its clock and its memory; and its workers' environment."""

import ctypes
import hashlib
import os
import re
import shlex
import shutil
import sys
import sysconfig
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, chdir, contextmanager, suppress
from functools import cache as once
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

import infra
import stream_jobs
from infra.clients.locks import locked
from infra.contract.errors import ConfigError
from infra.settings.settings import Settings
from infra.stack import cache

CHECKPOINT_FILES: Final = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)
FILE_MANAGER: Final = "spark.sql.streaming.checkpointFileManagerClass"
LOCAL_FILES: Final = "com.globalmentor.apache.hadoop.fs.BareLocalFileSystem"
"""Without a native library Hadoop's own local files start chmod and readlink as programs, tens a batch."""
LOCAL: Final = "local[1]"
SUBMITTED: Final = "PYSPARK_GATEWAY_PORT"  # in the environment of a program that spark-submit has started
PLACES: Final = ("checkpoints", "lookups")
ENVIRONMENT: Final = "environment"  # folder of the unpacked archive (package.py) where an executor works
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
    cache.verify(connector, cache.pyspark_jars(), *cache.class_archives(downloads))
    given = _submitted()
    master = given.get("spark.master", master)
    conf = common_conf(settings) | {"spark.driver.memory": f"{memory_mb}m"}
    conf |= (_on_this_machine if master.startswith("local") else _on_a_cluster)(settings)
    conf |= {**extra_conf, JAVA_OPTIONS: java_options(settings, extra_conf)}
    os.environ.setdefault("SPARK_HOME", str(cache.pyspark_jars().parent))  # as the class archive names it
    os.environ.setdefault("MALLOC_ARENA_MAX", "2")  # one a thread holds three times as much for RocksDB
    builder = SparkSession.builder.appName(name).master(master)
    for key, value in (conf | given).items():
        builder = builder.config(key, value)
    with chdir(Path.cwd() if SUBMITTED in os.environ else _scratch(settings)):
        _driver_python()
        session = builder.getOrCreate()
    session.sparkContext.setLogLevel("WARN")
    return session


def _driver_python() -> None:
    """Where workers have their Python, one for the driver's machine: Spark asks the operator for its state
    there, in the folder that Java was started in.
    """
    python = Path(os.environ.get("PYSPARK_PYTHON", sys.executable))
    if not python.is_absolute() and not python.exists():
        python.parent.mkdir(parents=True, exist_ok=True)
        python.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n')
        python.chmod(0o755)


def _submitted() -> dict[str, str]:
    """The configuration of spark-submit; empty where the program was started by itself."""
    if SUBMITTED not in os.environ:
        return {}
    SparkContext._ensure_initialized()
    return dict(SparkConf().getAll())


def _on_this_machine(settings: Settings) -> dict[str, str]:
    """Tasks run in this process and see what it sees."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    jars = ":".join(map(str, cache.jars(settings.paths.cache, "spark")))
    return {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.authenticate": "true",  # by a secret that it makes at each start and keeps to itself
        "spark.driver.extraClassPath": jars,
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
    paths = {name: settings.paths.place(name) for name in PLACES}
    if own := [
        name for name, place in paths.items() if "://" not in place and not getattr(settings.paths, name)
    ]:
        names = " and ".join(f"ODOGRAPH_PATHS_{name.upper()}" for name in own)
        raise ConfigError(
            f"{names}: on a Spark cluster a URL, or a folder that all hosts share, is wanted: workers would "
            "look for them in a home of their own"
        )
    jars = [str(jar) for jar in cache.jars(settings.paths.cache, "spark")]
    conf = {
        "spark.jars": ",".join(jars),
        "spark.driver.extraClassPath": ":".join(jars),
        "spark.executor.extraJavaOptions": f"{COMPILER} -XX:+UseSerialGC {settings.jobs.java_options}",
    }
    os.environ["PYSPARK_PYTHON"] = sys.executable
    if archive := settings.jobs.environment:
        os.environ["PYSPARK_PYTHON"] = f"{ENVIRONMENT}/bin/python3"
        os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
        conf["spark.archives"] = f"{archive}#{ENVIRONMENT}"
        conf["spark.executorEnv.LD_LIBRARY_PATH"] = f"{ENVIRONMENT}/lib"
        conf["spark.executorEnv.PYTHONPATH"] = ENVIRONMENT  # no checkout that a host may have
    return conf


@contextmanager
def spark_when_asked(
    settings: Settings, name: str, memory_mb: int, master: str | None = None
) -> Iterator[Callable[[], SparkSession]]:
    """Makes the session of a batch command when it is first called for; it ends with the block."""

    @lru_cache(maxsize=1)
    def session() -> SparkSession:
        conf = {"spark.sql.shuffle.partitions": str(settings.recompute.parts)}
        return build_session(settings, name, memory_mb, master or settings.jobs.master, conf)

    try:
        yield session
    finally:
        if session.cache_info().currsize:
            session().stop()


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


OURS: Final = (infra, stream_jobs)
LEFT_OUT: Final = frozenset(
    {"pyspark", "streamlit", "pydeck", "pillow", "authlib", "cryptography", "httpx", "starlette"}
)
"""Requirements that no worker imports: Spark's own, and what only other programs need."""
NOT_OF_THE_LIBRARY: Final = frozenset(
    {"site-packages", "test", "idlelib", "ensurepip", "tkinter", "turtledemo"}
)

NEVER_IMPORTED: Final = re.compile(r"(^|/)(\.\.|tests|include)/|libarrow_(flight|s3)\.")
"""Of a distribution: programs (``..``), tests, headers; of Arrow what speaks to services, 49 MB."""


def pack_environment(target: Path) -> Path:
    """Write the environment of Spark's Python workers (tar.gz), whole or not at all, unless it is there.

    Executors unpack it (spark.archives), so a host of the cluster needs Spark and Java, and nothing of ours.
    Beside it lies the digest of its files' names, sizes and times: while these are the same, it is kept.
    """
    files = sorted(set(_files()), key=lambda pair: pair[1])
    known, digest = target.with_name(f"{target.name}.files"), hashlib.sha256()
    for path, name in files:
        found = path.stat()
        digest.update(f"{name} {found.st_size} {found.st_mtime_ns}\n".encode())
    if target.exists() and known.exists() and known.read_text() == digest.hexdigest():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = target.with_name(f".{target.name}.{os.getpid()}")
    with tarfile.open(draft, "w:gz", compresslevel=1) as archive:
        for path, name in files:
            archive.add(path, name, recursive=False)
    known.unlink(missing_ok=True)
    draft.replace(target)
    known.write_text(digest.hexdigest())
    return target


def _files() -> Iterator[tuple[Path, str]]:
    """Each file and its name in the archive, which is laid out as an interpreter looks for its library."""
    library = f"lib/python{sys.version_info.major}.{sys.version_info.minor}"
    yield Path(os.path.realpath(sys.executable)), "bin/python3"
    for shared in Path(sysconfig.get_config_var("LIBDIR")).glob("libpython*.so.*"):
        yield shared, f"lib/{shared.name}"
    standard = Path(sysconfig.get_path("stdlib"))
    for path in _below(standard):
        first = path.relative_to(standard).parts[0]
        if first not in NOT_OF_THE_LIBRARY and not first.startswith("config-"):
            yield path, f"{library}/{path.relative_to(standard)}"
    packages = f"{library}/site-packages"
    for distribution in _required("odograph", frozenset()).values():
        for file in distribution.files or ():
            path = Path(str(distribution.locate_file(file)))
            if not NEVER_IMPORTED.search(str(file)) and path.is_file():
                yield path, f"{packages}/{file}"
    for package in OURS:
        root = Path(str(package.__file__)).parent
        for path in _below(root):
            yield path, f"{packages}/{package.__name__}/{path.relative_to(root)}"


def _required(name: str, extras: frozenset[str]) -> dict[str, metadata.Distribution]:
    """What a distribution with these extras requires, and what that requires, by name."""
    found: dict[str, metadata.Distribution] = {}
    todo = [(name, extras)]
    while todo:
        name, extras = todo.pop()
        for text in metadata.requires(name) or ():
            wanted = Requirement(text)
            other = canonicalize_name(wanted.name)
            here = wanted.marker is None or any(wanted.marker.evaluate({"extra": e}) for e in extras | {""})
            if here and other not in LEFT_OUT | found.keys():
                found[other] = metadata.distribution(other)
                todo.append((other, frozenset(wanted.extras)))
    return found


def _below(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc")
