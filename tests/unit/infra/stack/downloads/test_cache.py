"""What was fetched is known to be whole before it is used."""

from __future__ import annotations

import hashlib
import os
import re
import sys
import tomllib
from pathlib import Path

import pytest

from infra.clients.db import system_user
from infra.contract.errors import ServiceError
from infra.settings.settings import load
from infra.stack.downloads import cache, fetch
from infra.stack.stack import Stack
from stream_jobs.audit_log.refusals import Refusal, of_program

ROOT = Path(__file__).parents[5]
PIN = re.compile(r"([\w.-]+)==\S+( ; [^#]+?)?( --hash=sha256:[0-9a-f]{64})+")
PURL = re.compile(r"pkg:(pypi|maven|deb)/[^@ ]+@[^@ ]+$")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = cache.jar_dir(tmp_path, "spark")
    place.mkdir(parents=True)
    (place / "a.jar").write_bytes(b"1234")
    cache.write_manifest(place, [place / "a.jar"])
    return place


def test_a_whole_set_of_jars_is_used(folder: Path, tmp_path: Path) -> None:
    assert cache.jars(tmp_path, "spark") == (folder / "a.jar",)


def test_a_truncated_jar_is_noticed(folder: Path, tmp_path: Path) -> None:
    (folder / "a.jar").write_bytes(b"12")
    with pytest.raises(ServiceError, match="odograph setup"):
        cache.jars(tmp_path, "spark")


def test_one_flipped_byte_of_the_same_size_and_time_is_named(tmp_path: Path) -> None:
    """Of a root file system; nothing that no program loads counts, and links are what they point to."""
    root, program = cache.rootfs_dir(tmp_path), cache.rootfs_dir(tmp_path) / "usr/sbin/mosquitto"
    program.parent.mkdir(parents=True)
    program.write_bytes(b"a program")
    cache.write_manifest(root, [program])
    (root / "notes").write_text("of nobody's")
    cache.verify(root)
    before = program.stat()
    program.write_bytes(b"b program")
    os.utime(program, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert cache.is_complete(root)
    with pytest.raises(ServiceError, match=f"{program} was altered .SHA-256.: nothing is started"):
        cache.verify(root)
    program.write_bytes(b"a program")
    (root / "usr/sbin/more").write_bytes(b"a program")
    with pytest.raises(ServiceError, match="usr/sbin/more does not belong there"):
        cache.verify(root)


def test_a_set_of_jars_is_what_the_pins_name_whatever_its_manifest_says(folder: Path) -> None:
    with pytest.raises(
        ServiceError, match=r"a\.jar does not belong there, .*kafka-clients-3.9.2.jar was alt"
    ):
        cache.verify(folder)


def test_a_flipped_byte_in_a_jar_stops_the_start_before_anything_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = cache.jar_dir(tmp_path / "cache", "kafka")
    folder.mkdir(parents=True)
    jar, home, said = folder / "kafka-1.jar", tmp_path / "home", list[str]()
    jar.write_bytes(b"no jar of Kafka's")
    pins = tmp_path / "pins"
    pins.write_text(f"{hashlib.sha256(jar.read_bytes()).hexdigest()}  kafka org:kafka:1\n")
    monkeypatch.setattr(cache, "JAR_PINS", pins)
    cache.write_manifest(folder, [jar])
    stack = Stack(
        load(paths={"home": str(home), "cache": str(tmp_path / "cache")}), said.append, {}, ["kafka"]
    )
    stack._verify_programs()
    jar.write_bytes(b"no jar of Kafkb's")
    with pytest.raises(ServiceError, match=f"{jar} was altered .*nothing is started"):
        stack.up()
    assert not (home / "run").exists()
    assert said == []
    (told,) = (home / "logs" / "supervisor.log").read_text().splitlines()
    noted = of_program(told)
    assert noted is not None
    assert noted[1] == Refusal(system_user(), f"start: {jar} was altered")


def test_every_jar_of_the_resolver_is_pinned_once_and_pyspark_s_by_what_pip_installed() -> None:
    names = [(jar.kind, jar.artifact) for jar in cache.pinned_jars()]
    assert len(set(names)) == len(names) > 50
    text = cache.IVY_FILE.read_text() + fetch.HDFS_IVY.read_text()
    of_mirror = {name for kind, name in names if kind == "mirror"}
    assert {"connect-mirror", "connect-runtime", "kafka-clients"} <= of_mirror
    assert [name for kind, name in names if kind == "hdfs"] == ["hadoop-client-minicluster"]
    for sha256, kind, group, artifact, version in cache.pinned_jars():
        named = f'org="{group}" name="{artifact}" rev="{version}" conf="{kind}'
        assert kind in ("kafka", "mirror") or named in text
        assert len(sha256) == 64
    assert len(cache.recorded(cache.pyspark_jars())) > 200


def test_the_bill_of_materials_names_each_part_once_by_its_purl(tmp_path: Path) -> None:
    dpkg = cache.rootfs_dir(tmp_path) / cache.STATUS
    dpkg.parent.mkdir(parents=True)
    fields = "Package: {}\nStatus: {}\nArchitecture: amd64\nVersion: 1:2.0+b1\nDescription: x\n more: x\n\n"
    gone = fields.format("gone", "deinstall ok config-files")
    dpkg.write_text(fields.format("mosquitto", "install ok installed") + gone)
    cache.write_manifest(cache.rootfs_dir(tmp_path), [dpkg])
    found = cache.bill(tmp_path)
    assert (found["bomFormat"], found["specVersion"]) == ("CycloneDX", "1.6")
    assert found["metadata"]["component"]["name"] == "odograph"
    refs = {component["bom-ref"]: component for component in found["components"]}
    assert len(refs) == len(found["components"])
    assert all(map(PURL.match, refs))
    assert "pkg:deb/debian/mosquitto@1%3A2.0%2Bb1?arch=amd64&distro=trixie" in refs
    assert not [ref for ref in refs if "gone" in ref]
    assert refs["pkg:maven/org.apache.kafka/kafka-clients@4.3.1"]["hashes"][0]["alg"] == "SHA-256"


def test_every_dependency_is_pinned_with_hashes_and_without_an_address() -> None:
    """Else `pip install --require-hashes` stops, on a machine that none of us has."""
    lines = (ROOT / "infra" / "constraints.txt").read_text().splitlines()
    rows = [PIN.fullmatch(line) for line in lines if line != "# development"]
    assert all(rows)
    pinned = {re.sub(r"[-_.]+", "-", row[1]).lower() for row in rows if row}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"]["dev"], "pip", "setuptools"]
    names = {re.match(r"[\w.-]+", text)[0].lower() for text in wanted}  # type: ignore[index]
    assert names <= pinned


def test_jars_of_other_pins_are_fetched_again(folder: Path) -> None:
    manifest = folder / cache.MANIFEST
    manifest.write_text(manifest.read_text().replace(cache.pins(), "older"))
    assert not cache.is_complete(folder)


def test_an_empty_cache_says_how_to_fill_it(tmp_path: Path) -> None:
    with pytest.raises(ServiceError, match="odograph setup"):
        cache.rootfs(tmp_path)


def test_a_failed_rehearsal_leaves_programs_without_archives_and_is_tried_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    fetch.archive_classes(tmp_path)
    assert "failed (1)" in (cache.class_dir(tmp_path) / "failed.txt").read_text()
    assert cache.class_options(tmp_path, "spark") == ()
    monkeypatch.setattr(sys, "executable", "/no/such/program")
    fetch.archive_classes(tmp_path)


TABLE = """\
27 1 254:0 / / rw,relatime - ext4 /dev/vda rw
30 27 0:5 / {folder}/root/proc rw,relatime - proc proc rw
31 27 0:6 / {folder}-other rw,relatime - tmpfs tmpfs rw
"""


def test_a_folder_with_a_mount_below_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table, folder = tmp_path / "mountinfo", tmp_path / "cache"
    folder.mkdir()
    table.write_text(TABLE.format(folder=folder))
    monkeypatch.setattr(cache, "MOUNTS", table)
    with pytest.raises(ServiceError, match=f"{folder}/root/proc is mounted; umount it first"):
        cache.remove_tree(folder)
    assert folder.exists()


def test_a_mount_beside_the_folder_does_not_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table, folder = tmp_path / "mountinfo", tmp_path / "cache"
    folder.mkdir()
    table.write_text(TABLE.format(folder=folder).replace(f"{folder}/root", f"{folder}-root"))
    monkeypatch.setattr(cache, "MOUNTS", table)
    cache.remove_tree(folder)
    assert not folder.exists()


def test_a_folder_without_mounts_is_removed_and_a_missing_one_is_fine(tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    (folder / "below").mkdir(parents=True)
    cache.remove_tree(folder)
    cache.remove_tree(folder)
    assert not folder.exists()
