"""The Spark session: one place for its jars, its clock and its memory."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

import infra
from infra.settings.settings import Settings
from infra.stack import cache

CHECKPOINT_FILES: Final = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)
LOCAL_FILES: Final = "com.globalmentor.apache.hadoop.fs.BareLocalFileSystem"
"""Without a native library Hadoop's own local files start chmod and readlink as programs, tens a batch."""
JAVA_OPTIONS: Final = "spark.driver.extraJavaOptions"
COMPILER: Final = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"
"""Java's quick compiler only, with room for what it makes (its own default, 48 MiB, gets full).

The second compiler took 40 % of the processor time and was not at its end after 600,000 frames, and all it
gave was tasks that are a fifth faster: README, "Java". ``jobs.java_options`` brings it back.
"""


def build_session(
    settings: Settings, name: str, memory_mb: int, master: str, extra_conf: Mapping[str, str]
) -> SparkSession:
    """A session called ``name`` with the Kafka connector on its class path; ``extra_conf`` wins.

    Nothing secret belongs here: Spark shows its configuration on the command line and in its web page.
    Raises ServiceError where the connector was never fetched.
    """
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ.setdefault("SPARK_HOME", str(cache.pyspark_jars().parent))  # as the class archive names it
    jars = ":".join(map(str, cache.jars(settings.paths.cache, "spark")))
    conf = common_conf(settings) | {
        "spark.driver.memory": f"{memory_mb}m",
        "spark.driver.extraClassPath": jars,
        "spark.executor.extraClassPath": jars,
    }
    builder = SparkSession.builder.appName(name).master(master)
    for key, value in (conf | dict(extra_conf)).items():
        builder = builder.config(key, value)
    session = builder.config(JAVA_OPTIONS, java_options(settings, extra_conf)).getOrCreate()
    session.sparkContext.setLogLevel("WARN")
    return session


@contextmanager
def spark_when_asked(settings: Settings, name: str, memory_mb: int) -> Iterator[Callable[[], SparkSession]]:
    """Makes the session of a batch command when it is first called for; it ends with the block."""

    @lru_cache(maxsize=1)
    def session() -> SparkSession:
        conf = {"spark.sql.shuffle.partitions": str(settings.recompute.parts)}
        return build_session(settings, name, memory_mb, settings.jobs.master, conf)

    try:
        yield session
    finally:
        if session.cache_info().currsize:
            session().stop()


def java_options(settings: Settings, conf: Mapping[str, str]) -> str:
    """Options of the Java machine: all applications', this one's, the user's; the last one wins."""
    ready_made = " ".join(cache.class_options(settings.paths.cache, "spark"))
    return " ".join(filter(None, (COMPILER, ready_made, conf.get(JAVA_OPTIONS), settings.jobs.java_options)))


def common_conf(settings: Settings) -> dict[str, str]:
    """Settings that every application shares."""
    scratch = settings.paths.home.absolute() / "run" / "spark"
    return {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.executorEnv.PYTHONPATH": str(Path(infra.__file__).parents[1]),
        "spark.local.dir": str(scratch),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.sql.streaming.checkpointFileManagerClass": CHECKPOINT_FILES,
        "spark.hadoop.fs.file.impl": LOCAL_FILES,
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.variable.substitute": "false",  # else ${env:NAME} in users' SQL is the environment's value
        "spark.sql.ansi.enabled": "true",
        # It tells a task run again that gave other rows: ours are the records between two offsets.
        "spark.sql.shuffle.orderIndependentChecksum.enabled": "false",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.python.daemon.module": "stream_jobs.app.python_daemon",
    }
