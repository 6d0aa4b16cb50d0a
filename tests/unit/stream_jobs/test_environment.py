"""The archive that workers of a cluster run from, and how a host comes to have it unpacked."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from infra.contract.errors import ConfigError
from infra.settings.sections import Jobs
from stream_jobs.app import environment

SAYS = "import sys; print(sys.argv[1])"


@pytest.mark.slow
def test_the_archive_of_the_environment_has_an_interpreter_and_the_packages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = ("bin/", "lib/libpython", "stream_jobs/app/", "infra/contract/", "/json/")
    some = [pair for pair in environment._files() if any(part in pair[1] for part in own)]
    monkeypatch.setattr(environment, "_files", lambda: iter(some))
    made = environment.pack_environment(tmp_path / "environment.pack")
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
    file, target = tmp_path / "module.py", tmp_path / "environment.pack"
    file.write_text("a = 1")
    monkeypatch.setattr(environment, "_files", lambda: iter([(file, "module.py")]))
    first, again = (environment.pack_environment(target).stat().st_ino for _ in range(2))
    assert again == first
    file.write_text("a = 22")
    with tarfile.open(environment.pack_environment(target)) as archive:
        assert archive.extractfile("module.py").read() == b"a = 22"  # type: ignore[union-attr]
    target.unlink()
    assert environment.pack_environment(target).exists()


@pytest.fixture
def executor(tmp_path: Path) -> Path:
    """An executor's folder, as Spark fills it: launcher and archive."""
    return filled(tmp_path / "work" / "app" / "0", "first")


def filled(folder: Path, content: str) -> Path:
    """The archive's Python is this one; ``content`` stands for all else."""
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(environment.LAUNCHER, folder)
    (folder / environment.LAUNCHER.name).chmod(0o755)  # as Spark does
    made = folder / "made"
    (made / "bin").mkdir(parents=True)
    python = made / "bin" / "python3"
    python.write_text(f"""#!/bin/sh\nexec {sys.executable} "$@"\n""")
    python.chmod(0o755)
    (made / "content").write_text(content)
    with tarfile.open(folder / environment.PACKED, "w:gz") as archive:
        archive.add(made, ".")
    shutil.rmtree(made)
    return folder


def begun(executor: Path, *words: str, **more: str) -> subprocess.Popen[str]:
    """The Python of an executor, as Spark starts it."""
    env = {**os.environ, "ODOGRAPH_ENVIRONMENT": environment.PACKED, **more}
    env.setdefault("ODOGRAPH_ENVIRONMENT_CACHE", "../../../environments")
    command = [f"./{environment.LAUNCHER.name}", "-c", *words]
    return subprocess.Popen(command, cwd=executor, env=env, text=True, stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE)  # fmt: skip


def said(executor: Path, *words: str, **more: str) -> str:
    out, error = begun(executor, *words, **more).communicate(timeout=60)
    assert not error, error
    return out.strip()


def kept(executor: Path) -> dict[str, str]:
    """What each unpacked environment of the host holds, by the archive's hash."""
    found = (executor.parents[2] / "environments").glob("environment-*")
    return {path.name.split("-")[1]: (path / "content").read_text() for path in found}


def hash_of(executor: Path) -> str:
    return hashlib.sha256((executor / environment.PACKED).read_bytes()).hexdigest()


def test_the_executors_of_a_host_unpack_an_archive_once_whoever_is_first(executor: Path) -> None:
    others = [shutil.copytree(executor, executor.with_name(str(n))) for n in range(1, 5)]
    with ThreadPoolExecutor(5) as pool:
        assert {*pool.map(lambda each: said(each, SAYS, "here"), (executor, *others))} == {"here"}
    assert kept(executor) == {hash_of(executor): "first"}
    (place,) = (executor.parents[2] / "environments").glob("environment-*")
    before = place.stat()
    assert said(executor, SAYS, "again", ODOGRAPH_ENVIRONMENT_SHA256=hash_of(executor)) == "again"
    assert place.stat() == before


def test_without_a_place_of_its_host_an_executor_unpacks_for_itself(executor: Path) -> None:
    assert said(executor, SAYS, "here", ODOGRAPH_ENVIRONMENT_CACHE="") == "here"
    assert len([*executor.glob("environment-*/content")]) == 1
    assert kept(executor) == {}


def test_what_a_killed_one_has_begun_is_made_anew(executor: Path) -> None:
    said(executor, SAYS, "here")
    (place,) = (executor.parents[2] / "environments").glob("environment-*")
    place.rename(f"{place}.draft")
    (Path(f"{place}.draft") / "content").unlink()
    assert said(executor, SAYS, "here") == "here"
    assert kept(executor) == {hash_of(executor): "first"}


def test_another_archive_is_another_environment_and_one_in_use_stays(executor: Path) -> None:
    first = hash_of(executor)
    with begun(executor, "import sys; print(flush=True); sys.stdin.read()") as living:
        assert living.stdout is not None
        living.stdout.readline()
        second = hash_of(filled(executor, "second"))
        said(executor, SAYS, "here")
        assert kept(executor) == {first: "first", second: "second"}
        living.communicate()
    third = hash_of(filled(executor, "third"))
    said(executor, SAYS, "here")
    assert kept(executor) == {third: "third"}


def test_an_archive_that_is_not_the_drivers_is_not_unpacked(executor: Path) -> None:
    process = begun(executor, SAYS, "here", ODOGRAPH_ENVIRONMENT_SHA256="0" * 64)
    out, error = process.communicate(timeout=60)
    assert (process.returncode, out) == (1, "")
    assert "is not what was sent" in error
    assert kept(executor) == {}


def test_the_driver_sends_launcher_and_archive_with_its_hash(tmp_path: Path) -> None:
    archive = tmp_path / "any.tar.gz"
    archive.write_bytes(b"archive")
    jobs = Jobs(environment=str(archive), environment_cache="/var/cache/odograph")
    conf = environment.shipped(jobs, tmp_path)
    launcher, sent = conf["spark.files"].split(",")
    assert Path(launcher).read_text().startswith("#!/bin/sh")
    assert (Path(sent).name, Path(sent).read_bytes()) == (environment.PACKED, b"archive")
    assert conf["spark.executorEnv.ODOGRAPH_ENVIRONMENT_SHA256"] == hashlib.sha256(b"archive").hexdigest()
    assert conf["spark.executorEnv.ODOGRAPH_ENVIRONMENT_CACHE"] == "/var/cache/odograph"


@pytest.mark.parametrize("place", ["nowhere.pack", "hdfs://name:8020/environment.tar.gz"])
def test_an_archive_that_is_not_there_or_that_spark_would_unpack_is_refused(
    tmp_path: Path, place: str
) -> None:
    with pytest.raises(ConfigError, match="ODOGRAPH_JOBS_ENVIRONMENT"):
        environment.shipped(Jobs(environment=place), tmp_path)
