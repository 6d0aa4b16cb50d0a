"""Folders given to a service's user: what links lead to and what others own stays as it was."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from infra.contract.errors import ServiceError
from infra.stack.downloads import rootfs

SERVICE, EARLIER, OTHER = 61_001, 61_002, 61_003


@pytest.fixture(autouse=True)
def known_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rootfs, "ids", lambda _: (SERVICE, SERVICE))


def made(path: Path, owner: int) -> Path:
    path.write_text("text")
    os.chown(path, owner, owner)
    return path


def owner(path: Path) -> int:
    return path.lstat().st_uid


def test_what_an_earlier_user_has_in_the_folder_becomes_the_services_and_nothing_else(tmp_path: Path) -> None:
    outside, folder = tmp_path / "outside", tmp_path / "data"
    below = folder / "below"
    below.mkdir(parents=True)
    outside.mkdir()
    mine, deep, foreign = (
        made(path, uid)
        for path, uid in (
            (folder / "mine", EARLIER), (below / "deep", EARLIER), (folder / "foreign", OTHER),
        )
    )  # fmt: skip
    target = made(outside / "target", 0)
    (folder / "soft").symlink_to(target)
    (below / "away").symlink_to(outside)
    (folder / "hard").hardlink_to(target)
    os.mkfifo(folder / "pipe")
    for path in (folder, below, folder / "soft", below / "away", folder / "pipe"):
        os.lchown(path, EARLIER, EARLIER)

    rootfs.give_folder(folder, "service")

    assert [owner(path) for path in (folder, below, mine, deep)] == [SERVICE] * 4
    assert (owner(foreign), owner(target), owner(outside)) == (OTHER, 0, 0)
    assert folder.stat().st_mode & 0o777 == 0o700


def test_a_folder_that_was_roots_is_given_without_what_lies_in_it(tmp_path: Path) -> None:
    inside = made(tmp_path / "inside", 0)
    rootfs.give_folder(tmp_path, "service")
    assert (owner(tmp_path), owner(inside)) == (SERVICE, 0)


@pytest.mark.parametrize("leads_to", ["there", "nowhere"])
def test_a_link_in_the_folders_place_is_refused_by_name(tmp_path: Path, leads_to: str) -> None:
    (tmp_path / "there").mkdir()
    link = tmp_path / "data"
    link.symlink_to(tmp_path / leads_to)
    with pytest.raises(ServiceError, match=f"{link} must be a folder, no link"):
        rootfs.give_folder(link, "service")
    assert owner(tmp_path / "there") == 0


def test_configuration_is_roots_and_may_be_read_by_the_service_only(tmp_path: Path) -> None:
    folder = tmp_path / "config" / "broker"
    rootfs.write_config(folder, "service", {"broker.conf": "listener 1883\n"})
    file = (folder / "broker.conf").stat()
    assert (folder / "broker.conf").read_text() == "listener 1883\n"
    assert (file.st_uid, file.st_gid, file.st_mode & 0o777) == (0, SERVICE, 0o640)
    assert (owner(folder), folder.stat().st_mode & 0o777) == (0, 0o750)


def test_a_shared_folder_and_what_root_has_in_it_are_the_groups_and_links_and_files_of_others_are_not(
    tmp_path: Path,
) -> None:
    outside, folder = made(tmp_path / "outside", 0), tmp_path / "archive"
    (folder / "below").mkdir(parents=True)
    ours, foreign = made(folder / "below" / "ours", 0), made(folder / "foreign", OTHER)
    ours.chmod(0o640)
    (folder / "soft").symlink_to(outside)
    (folder / "hard").hardlink_to(outside)

    rootfs.share(folder, -1, SERVICE, 0o2770)

    places = (folder, folder / "below", ours, foreign, outside)
    assert [p.stat().st_gid for p in places] == [SERVICE, SERVICE, SERVICE, OTHER, 0]
    assert [oct(p.stat().st_mode & 0o7777) for p in places[:3]] == ["0o2770", "0o2775", "0o660"]
    assert [owner(p) for p in places] == [0, 0, 0, OTHER, 0]


def test_a_user_finds_of_a_closed_folder_what_it_is_shown_and_nothing_else(tmp_path: Path) -> None:
    closed, needed = tmp_path / "closed", tmp_path / "closed" / "a" / "needed"
    needed.mkdir(parents=True)
    for path in (tmp_path, closed / "a", needed):
        path.chmod(0o755)
    closed.chmod(0o700)
    (needed / "file").write_text("text\n")
    (closed / "file").write_text("secret\n")
    script = (
        f"cat {needed}/file; ls {closed} {closed}/a; id -u; id -G; env; grep Cap /proc/self/status; umask"
    )
    command = rootfs.as_user("service", ("/bin/sh", "-c", script), needed, [needed], {"X": 1}, [OTHER])
    assert command.index("env") < command.index("setpriv")  # the user never has root's environment
    done = subprocess.run(command, capture_output=True, text=True, check=True, env={"PATH": "/bin", "Y": "2"})
    lines = done.stdout.splitlines()
    assert lines[:7] == ["text", f"{closed}:", "a", "", f"{closed}/a:", "needed", f"{SERVICE}"]
    assert {*lines[7].split()} == {f"{SERVICE}", f"{OTHER}"}
    assert "X=1" in lines
    assert "Y=2" not in lines
    rights = [line.split()[1].strip("0") for line in lines if line.startswith("Cap")]
    assert (rights, lines[-1]) == ([""] * 5, "0007")
    assert (closed / "file").read_text() == "secret\n"


def test_a_user_that_cannot_be_made_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(rootfs, "MAKE_USER", ("no-such-program",))
    with pytest.raises(ServiceError, match="system user odograph-nobody cannot be made: there is no useradd"):
        rootfs.ids("odograph-nobody")


ROOTS = """
import os, sys
from pathlib import Path
from infra.stack.downloads.rootfs import unfollow

folder, way = Path(sys.argv[1]), Path(sys.argv[2])
unfollow([folder])
unfollow([folder])
(folder / "plain").write_text("root's")
for name in ("way/target", "file"):
    try:
        (folder / name).write_text("root's")
    except OSError as error:
        print(name, error.strerror)
print((way / "plain").read_text(), len([*Path("/proc/self/mountinfo").open()]))
"""


def test_root_goes_nowhere_by_a_link_in_a_folder_of_programs(
    tmp_path: Path,
) -> None:
    outside, folder, way = (tmp_path / name for name in ("outside", "shared", "way"))
    for each in (outside, folder):
        each.mkdir()
    (outside / "target").write_text("text")
    (folder / "way").symlink_to(outside)
    (folder / "file").symlink_to(outside / "target")
    way.symlink_to(folder)
    words = [sys.executable, "-c", ROOTS, str(folder), str(way)]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    mounts = len(Path("/proc/self/mountinfo").read_text().splitlines())
    closed = [f"{name} Too many levels of symbolic links" for name in ("way/target", "file")]
    assert done.stdout.splitlines() == [*closed, f"root's {mounts + 1}"]
    assert (outside / "target").read_text() == "text"
    assert (folder / "file").read_text() == "text"  # to others all is as it was
