"""One Spark session for the unit tests of the jobs: local, without Kafka."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from infra.settings.settings import load
from stream_jobs.app.session import build_session


@pytest.fixture(scope="session")
def java(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session with the settings that every application shares."""
    settings = load(paths={"home": str(tmp_path_factory.mktemp("spark"))})
    session = build_session(settings, "unit", 1024, "local[2]", {"spark.sql.shuffle.partitions": "2"})
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
