"""One Spark session for the unit tests of the jobs: local, without Kafka."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from infra.settings.settings import load
from stream_jobs.app.session import JAVA_OPTIONS, common_conf, java_options


@pytest.fixture(scope="session")
def java(clean_environment: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session with the settings that every application shares, Java's quick compiler among them."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings = load(paths={"home": str(tmp_path_factory.mktemp("spark"))})
    builder = SparkSession.builder.appName("unit").master("local[2]")
    for key, value in (common_conf(settings) | {JAVA_OPTIONS: java_options(settings, {})}).items():
        builder = builder.config(key, value)
    session = builder.config("spark.sql.shuffle.partitions", "2").getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def spark(java: SparkSession) -> SparkSession:
    """The session of most tests. A module whose tests all want another gives it this name."""
    return java


@pytest.fixture(scope="session")
def query_spark(java: SparkSession) -> SparkSession:
    """The session as the queries of rules run in: what cannot be computed is null."""
    own = java.newSession()
    own.conf.set("spark.sql.ansi.enabled", "false")
    return own
