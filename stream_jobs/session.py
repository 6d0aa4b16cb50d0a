"""The Spark session: one place for its jars, its clock and its memory."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import SparkSession

from infra.contract.errors import ConfigError
from infra.contract.settings import Settings


def build_session(
    settings: Settings, name: str, memory_mb: int, master: str, extra_conf: Mapping[str, str]
) -> SparkSession:
    """A session called ``name`` with the Kafka connector on its class path; ``extra_conf`` wins.

    Nothing secret belongs here: Spark shows its configuration on the command line and in its web page.
    Raises ConfigError where the connector was never fetched.
    """
    os.environ["PYSPARK_PYTHON"] = sys.executable
    jars = ":".join(map(str, connector_jars(settings.paths.cache)))
    conf = common_conf(settings) | {
        "spark.driver.memory": f"{memory_mb}m",
        "spark.driver.extraClassPath": jars,
        "spark.executor.extraClassPath": jars,
    }
    builder = SparkSession.builder.appName(name).master(master)
    for key, value in (conf | dict(extra_conf)).items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("WARN")
    return session


def common_conf(settings: Settings) -> dict[str, str]:
    """Settings that every application shares."""
    scratch = settings.paths.home.absolute() / "run" / "spark"
    return {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.local.dir": str(scratch),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.ansi.enabled": "true",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
    }


def connector_jars(cache: Path) -> list[Path]:
    """The Kafka connector and what it needs beyond PySpark's own jars."""
    folder = cache / "jars" / "spark"
    jars = sorted(folder.absolute().glob("*.jar"))
    if not any(jar.name.startswith("spark-sql-kafka") for jar in jars):
        raise ConfigError(f"no Kafka connector for Spark in {folder}; fetch it: odograph setup")
    return jars
