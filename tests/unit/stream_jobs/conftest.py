"""One Spark session for the unit tests of the jobs: local, without Kafka."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from infra.contract.settings import load
from stream_jobs.session import common_conf


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session with the settings that every application shares."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    home: Path = tmp_path_factory.mktemp("spark")
    builder = SparkSession.builder.appName("unit").master("local[2]")
    for key, value in common_conf(load(paths={"home": str(home)})).items():
        builder = builder.config(key, value)
    session = builder.config("spark.sql.shuffle.partitions", "2").getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()
