"""What a host of the cluster sees of this machine's disk."""

from __future__ import annotations

import subprocess
from pathlib import Path

from infra.settings.settings import load
from infra.stack.cluster import Cluster, Profile, apart


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
    names = Cluster(load(paths={"home": str(tmp_path)}), Profile(3, 2, 2, 3), print).names
    assert names[:4] == ["kafka-controller", "hdfs-name", "spark-master", "hdfs-data"]
    assert names[4:8] == ["kafka-1", "kafka-2", "kafka-3", "mosquitto-1"]
    assert len(names) == 4 + 3 + 2 + 3 + 2
