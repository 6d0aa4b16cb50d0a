"""What Spark is told on one machine and on a cluster; the archive that workers of a cluster run from."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from infra.clients.locks import locked
from infra.contract.errors import ConfigError
from infra.settings.settings import Settings
from infra.stack import cache
from infra.stack.probes import rejects_rpc
from stream_jobs.app import session


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
    found = settings(tmp_path, paths=places, jobs={"environment": "hdfs://name:8020/environment.tar.gz"})
    conf = session.common_conf(found) | session._on_a_cluster(found)
    assert conf["spark.jars"] == str(jars)
    assert conf["spark.archives"] == "hdfs://name:8020/environment.tar.gz#environment"
    assert os.environ["PYSPARK_PYTHON"] == "environment/bin/python3"
    of_workers = {k: v for k, v in conf.items() if k.startswith(("spark.executor", "spark.local"))}
    assert not [v for v in of_workers.values() if str(tmp_path) in v or sys.prefix in v], of_workers


def test_a_cluster_is_refused_where_each_host_would_have_a_checkpoint_of_its_own(
    tmp_path: Path, jars: Path
) -> None:
    with pytest.raises(ConfigError, match="ODOGRAPH_PATHS_CHECKPOINTS and ODOGRAPH_PATHS_LOOKUPS"):
        session._on_a_cluster(settings(tmp_path))
    shared = {"checkpoints": str(tmp_path / "a"), "lookups": str(tmp_path / "b")}
    assert jars.name in session._on_a_cluster(settings(tmp_path, paths=shared))["spark.jars"]


def test_the_archive_of_the_environment_has_an_interpreter_and_the_packages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = ("bin/", "lib/libpython", "stream_jobs/app/", "infra/contract/", "/json/")
    some = [pair for pair in session._files() if any(part in pair[1] for part in own)]
    monkeypatch.setattr(session, "_files", lambda: iter(some))
    made = session.pack_environment(tmp_path / "environment.tar.gz")
    with tarfile.open(made) as archive:
        archive.extractall(tmp_path / "there", filter="data")
    library = f"lib/python{sys.version_info.major}.{sys.version_info.minor}"
    for file in ("json/decoder.py", "site-packages/stream_jobs/app/python_daemon.py"):
        assert (tmp_path / "there" / library / file).is_file()
    run = subprocess.run(
        ["bin/python3", "--version"], cwd=tmp_path / "there", env={"LD_LIBRARY_PATH": "lib"},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert run.stdout.split()[1] == ".".join(map(str, sys.version_info[:3]))


def test_the_environment_is_packed_anew_when_a_file_of_it_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, target = tmp_path / "module.py", tmp_path / "environment.tar.gz"
    file.write_text("a = 1")
    monkeypatch.setattr(session, "_files", lambda: iter([(file, "module.py")]))
    first, again = (session.pack_environment(target).stat().st_ino for _ in range(2))
    assert again == first
    file.write_text("a = 22")
    with tarfile.open(session.pack_environment(target)) as archive:
        assert archive.extractfile("module.py").read() == b"a = 22"  # type: ignore[union-attr]
    target.unlink()
    assert session.pack_environment(target).exists()


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
