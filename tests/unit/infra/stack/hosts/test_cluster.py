"""What a host of the cluster sees of this machine's disk."""

from __future__ import annotations

import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest

from infra.contract.errors import ConfigError
from infra.settings.settings import load
from infra.stack.downloads.rootfs import apart
from infra.stack.hosts.cluster import toml
from infra.stack.stack import Stack


def test_settings_that_a_home_keeps_are_read_back_whatever_its_folder_is_called() -> None:
    kept: dict[str, dict[str, object]] = {
        "paths": {"home": '/srv/"a" \\ \x7f \U0001f600'},
        "jobs": {"eta": 1.5, "on": True},
    }
    assert tomllib.loads(toml(kept)) == kept
    assert toml({"a": {"b": 1}, "c": {"d": "e"}}) == '[a]\nb = 1\n\n[c]\nd = "e"\n'


def test_a_host_sees_its_own_folder_and_what_it_is_shown_and_no_other(tmp_path: Path) -> None:
    for name in ("own", "other", "jars"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(name)
    own, jars = tmp_path / "own", tmp_path / "jars"
    script = f"cat file /mnt/kept/file; ls {tmp_path} {tmp_path}/other; echo more > written"
    command = apart({own: own, jars: Path("/mnt/kept")}, {tmp_path}, own, ("/bin/sh", "-c", script))
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    assert done.stdout == f"ownjars{tmp_path}:\nown\n"
    assert "No such file" in done.stderr
    assert (own / "written").read_text() == "more\n"
    assert not Path("/mnt/kept").exists()


def test_a_folder_within_a_hidden_one_stays_where_it_is_for_who_owns_it(tmp_path: Path) -> None:
    own = tmp_path / "a" / "b"
    own.mkdir(parents=True)
    (own / "file").write_text("kept")
    command = apart({own: own}, {tmp_path, tmp_path / "a"}, own, ("/bin/cat", str(own / "file")))
    assert subprocess.run(command, capture_output=True, text=True, check=True, timeout=30).stdout == "kept"


def test_what_others_need_is_named_first(tmp_path: Path) -> None:
    profile = {"kafka": 3, "mqtt": 2, "postgres": 2, "workers": 3}
    names = Stack(load(paths={"home": str(tmp_path)}, cluster=profile), print).cluster.names
    assert names[:4] == ["kafka-controller", "hdfs-name", "spark-master", "hdfs-data"]
    assert names[4:8] == ["kafka-1", "kafka-2", "kafka-3", "mosquitto-1"]
    assert len(names) == 4 + 3 + 2 + 3 + 2


def test_each_host_of_programs_has_a_home_and_the_jobs_are_told_of_spark_and_of_their_hosts_lookups(
    tmp_path: Path,
) -> None:
    ports = '{"maintenance": 81, "maintenance-2": 82, "spark-master": 7077}'
    (tmp_path / "ports.json").write_text(ports)
    profile = {"workers": 2, "hosts": 2}
    stack = Stack(load(paths={"home": str(tmp_path)}, cluster=profile, bridge={"shards": 2}), print)
    found = {program.name: dict(program.env) for program in stack.programs()}
    twice = {"downlink", "jobs", "instant", "events", "maintenance", "dashboard"}
    assert {*found} == {"bridge-1", "bridge-2", "watch", "proxy", *twice, *(f"{name}-2" for name in twice)}
    assert (found["bridge-2"], found["events"]) == ({}, {})
    assert found["events-2"] == {"ODOGRAPH_PATHS_HOME": f"{tmp_path}/hosts/2"}
    assert found["jobs"]["ODOGRAPH_PATHS_LOOKUPS"] == "http://127.0.0.1:81/lookups"
    assert found["jobs-2"]["ODOGRAPH_PATHS_LOOKUPS"] == "http://127.0.0.1:82/lookups"
    assert found["jobs-2"]["ODOGRAPH_JOBS_MASTER"] == "spark://127.0.0.1:7077"
    assert found["jobs-2"]["ODOGRAPH_PATHS_HOME"] == f"{tmp_path}/hosts/2"


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"cluster": {"kafka": 3}, "kafka": {"bootstrap": "other:9092"}}, "ODOGRAPH_KAFKA_BOOTSTRAP"),
        ({"cluster": {"mqtt": 2}, "mqtt": {"url": "mqtt://other"}}, "ODOGRAPH_MQTT_URL"),
        ({"cluster": {"postgres": 2}, "db": {"url": "postgresql://me@other/odograph"}}, "ODOGRAPH_DB_URL"),
        ({"cluster": {"kafka": 5}, "paths": {"home": "used"}}, "kafka=5.* ODOGRAPH_PATHS_HOME"),
    ],
)
def test_a_cluster_is_refused_beside_other_servers_and_over_other_data(
    given: dict[str, Any], told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "used").mkdir()
    (tmp_path / "used" / "ports.json").write_text("{}")
    with pytest.raises(ConfigError, match=told):
        Stack(load(**{"paths": {"home": "new"}} | given), print).up()


def test_a_profile_is_read_from_the_environment_too(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in load(cluster={"postgres": 2, "hosts": 2}).cluster.model_dump().items():
        monkeypatch.setenv(f"ODOGRAPH_CLUSTER_{name.upper()}", str(value))
    assert (load().cluster.postgres, load().cluster.hosts, load().cluster.kafka) == (2, 2, 0)


@pytest.mark.parametrize("profile", [{"postgres": 1}, {"kafka": -1}, {"hosts": 0}, {"workers": "many"}])
def test_a_number_of_servers_that_cannot_be_is_refused_by_its_setting(profile: dict[str, Any]) -> None:
    (name,) = profile
    with pytest.raises(ConfigError, match=f"ODOGRAPH_CLUSTER_{name.upper()}"):
        load(cluster=profile)
