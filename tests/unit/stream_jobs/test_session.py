"""What Spark is told on one machine and on a cluster."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from infra.clients.locks import locked
from infra.contract.errors import ConfigError
from infra.settings.settings import Settings
from infra.stack.downloads import cache
from infra.stack.probes import rejects_rpc
from stream_jobs.app import environment, session


@pytest.fixture
def jars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache with a jar; what a session leaves in the environment goes with the test."""
    monkeypatch.setattr(os, "environ", dict(os.environ))
    folder = cache.jar_dir(tmp_path / "cache", "spark")
    folder.mkdir(parents=True)
    (folder / "kafka.jar").write_bytes(b"jar")
    cache.write_manifest(folder, [folder / "kafka.jar"])
    return folder / "kafka.jar"


def settings(home: Path, **sections: object) -> Settings:
    paths = {"home": str(home), "cache": str(home / "cache"), **dict(sections.pop("paths", {}))}  # type: ignore[call-overload]
    return Settings(paths=paths, **sections)  # type: ignore[arg-type]


def test_workers_of_a_cluster_get_jars_and_environment_and_no_path_of_the_driver(
    tmp_path: Path, jars: Path
) -> None:
    places = {"checkpoints": "hdfs://name:8020/checkpoints", "lookups": "http://host:81/lookups"}
    found = settings(tmp_path, paths=places, jobs={"environment": "hdfs://name:8020/environment.pack"})
    conf = session.common_conf(found) | session._on_a_cluster(found)
    assert conf["spark.jars"] == str(jars)
    assert conf["spark.files"] == f"{environment.LAUNCHER},hdfs://name:8020/environment.pack"
    assert os.environ["PYSPARK_PYTHON"] == "./environment.sh"
    of_workers = {k: v for k, v in conf.items() if k.startswith(("spark.executor", "spark.local"))}
    assert not [v for v in of_workers.values() if str(tmp_path) in v or sys.prefix in v], of_workers


def test_a_cluster_is_refused_where_each_host_would_have_a_checkpoint_of_its_own(
    tmp_path: Path, jars: Path
) -> None:
    with pytest.raises(ConfigError, match="ODOGRAPH_PATHS_CHECKPOINTS and ODOGRAPH_PATHS_LOOKUPS"):
        session._on_a_cluster(settings(tmp_path))
    shared = {"checkpoints": str(tmp_path / "a"), "lookups": str(tmp_path / "b")}
    assert jars.name in session._on_a_cluster(settings(tmp_path, paths=shared))["spark.jars"]


def test_the_drivers_port_asks_strangers_who_they_are_and_one_that_does_not_is_noticed(
    java: SparkSession,
) -> None:
    context = java.sparkContext
    assert rejects_rpc(int(context.getConf().get("spark.driver.port") or 0))
    jvm: Any = context._jvm
    spark, conf = jvm.org.apache.spark, jvm.org.apache.spark.SparkConf(False)
    file = getattr(spark.SecurityManager, "$lessinit$greater$default$3")()
    security = spark.SecurityManager(conf, jvm.scala.Option.empty(), file)
    server = spark.rpc.RpcEnv.create("open", "127.0.0.1", 0, conf, security, False)
    try:
        assert not rejects_rpc(server.address().port())
    finally:
        server.shutdown()


def test_what_a_killed_process_left_is_removed_and_what_lives_stays(tmp_path: Path) -> None:
    every = tmp_path / "run" / "spark"
    (every / "left" / "blockmgr").mkdir(parents=True)
    (every / "left" / session.ALIVE).touch()
    (every / "older" / "blockmgr").mkdir(parents=True)
    with locked(every / "living" / session.ALIVE):
        options = session.java_options(settings(tmp_path), {})
        (ours,) = {path.name for path in every.glob("*/")} - {"living"}
    assert f'"-Djava.io.tmpdir={every / ours}"' in options
    with pytest.raises(BlockingIOError), locked(every / ours / session.ALIVE, busy=BlockingIOError()):
        pass
