"""Fetches what the local stack runs on: jars, a root file system, Java. Says what and how far it is.

Everything lands in the user's cache under a temporary name and is renamed when it is whole. Versions are
pinned in ``ivy.xml`` and ``cache.py``; the addresses are the tools' defaults.
"""

import fcntl
import os
import re
import shlex
import shutil
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path

from rich.console import Console

from infra.clients.health import in_background
from infra.contract.errors import ServiceError
from infra.stack.downloads import cache
from infra.stack.downloads.cache import remove_tree
from infra.stack.downloads.rootfs import PRIVATE_MOUNTS

JAVA_MIN = 17
WITHOUT_ROOT = (
    "; without it use infra/compose.yaml, or services of your own:"
    " ODOGRAPH_MQTT_URL, ODOGRAPH_KAFKA_BOOTSTRAP, ODOGRAPH_DB_URL"
)
HDFS_IVY = Path(__file__).with_name("hdfs.xml")
EVERY_S = 5.0
MIB = 1 << 20
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
ROOT_PROOF = (
    "usr/sbin/mosquitto",
    "usr/lib/postgresql/17/bin/postgres",
    "usr/lib/postgresql/17/lib/timescaledb.so",
    "usr/share/postgresql/17/extension/timescaledb.control",
)


def fetch_all(folder: Path, services: Collection[str]) -> None:
    """Everything that the Spark jobs and ``services`` need, which are kinds. Raises ServiceError."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "fetch.lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("another set-up is fetching: waiting for it")
            fcntl.flock(file, fcntl.LOCK_EX)
        ensure_java()
        fetch_jars(folder, "spark")
        if "kafka" in services:
            fetch_jars(folder, "kafka")
            archive_classes(folder)
        if "hdfs" in services:
            fetch_jars(folder, "hdfs", HDFS_IVY)
        if {"postgres", "mosquitto"} & set(services):
            build_rootfs(folder)


def java_version() -> int | None:
    """Major version of the ``java`` on the path; None without one."""
    if shutil.which("java") is None:
        return None
    answer = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False)
    found = re.search(r'version "(\d+)', answer.stderr)
    return int(found[1]) if found else None


def ensure_java() -> None:
    """A Java of at least version 17, installed by apt when there is none."""
    version = java_version()
    if version is None:
        _apt_install("default-jre-headless")
        version = java_version()
    if version is None or version < JAVA_MIN:
        raise ServiceError(
            f"Java {JAVA_MIN} or newer is needed, found {version}; install one and put it first on PATH"
        )


def ensure_chromium() -> None:
    """Chromium for the browser tests, installed by apt when there is none."""
    package = "chromium-headless-shell"
    if shutil.which(package) is None:
        _apt_install(package)
    if shutil.which(package) is None:
        raise ServiceError(f"{package} was installed but is not on PATH")


def fetch_jars(folder: Path, name: str, ivy: Path = cache.IVY_FILE) -> None:
    """One set of jars, a configuration of the file ``ivy``, by the resolver inside PySpark."""
    target = cache.jar_dir(folder, name)
    if cache.is_complete(target):
        return
    half = _half(target)
    resolver = next(iter(sorted(cache.pyspark_jars().glob("ivy-*.jar"))), None)
    if resolver is None:
        raise ServiceError(f"PySpark's resolver is not in {cache.pyspark_jars()}; reinstall pyspark")
    pattern = f"{half}/[artifact]-[revision](-[classifier]).[ext]"
    options = ("-cache", str(folder / "ivy"), "-ivy", str(ivy), "-confs", name)
    command = ("java", "-jar", str(resolver), *options, "-retrieve", pattern)
    run_shown(f"{name} jars", half, {command: r"^downloading .*/([^/ ]+\.jar)"})
    _keep(half, target, sorted(half.glob("*.jar")))
    cache.verify(target)


def archive_classes(folder: Path) -> None:
    """Class archives for Spark and Kafka, by a rehearsal of both: each start then takes half the CPU time.

    All works without: where the rehearsal fails that is said, once, and noted in its place.
    """
    target = cache.class_dir(folder)
    if cache.is_complete(target):
        return
    half, module = _half(target), "stream_jobs.app.rehearsal"
    command = (sys.executable, "-m", module, str(half), str(folder))
    try:
        run_shown("Java class archives", half, {command: r"^rehearsal: (.+)"})
    except ServiceError as error:
        (half / "failed.txt").write_text(str(error))
        say(f"{error}\nJava class archives: left out, programs start slower; again: remove {target}")
    _keep(half, target, [*half.glob("*.jsa"), *half.glob("failed.txt")])


def build_rootfs(folder: Path) -> None:
    """The Debian root file system with PostgreSQL, TimescaleDB and Mosquitto, by Debian's signatures."""
    target = cache.rootfs_dir(folder)
    if cache.is_complete(target):
        return
    _require_root("building the root file system")
    if not all(map(shutil.which, ("debootstrap", "gpgv"))) or not KEYRING.exists():
        _apt_install("debootstrap", "gpgv", "debian-archive-keyring")
    half = _half(target)
    signed = ("--force-check-gpg", f"--keyring={KEYRING}")
    options = (*signed, "--variant=minbase", f"--include={','.join(cache.PACKAGES)}")
    command = (*PRIVATE_MOUNTS, "debootstrap", *options, cache.SUITE, str(half))
    name = f"Debian {cache.SUITE} with PostgreSQL, TimescaleDB, Mosquitto"
    run_shown(name, half, {command: r"^I: (?:Retrieving|Unpacking|Configuring) ([^ .]+)"})
    for leftover in ("var/cache/apt", "var/lib/apt/lists"):
        remove_tree(half / leftover)
    _keep(half, target, [half / name for name in ROOT_PROOF])


def _half(target: Path) -> Path:
    """An empty place beside ``target``; what an interrupted set-up left there is removed."""
    half = target.with_name(f".{target.name}.half")
    remove_tree(half)
    half.mkdir(parents=True)
    return half


def _keep(half: Path, target: Path, proof: list[Path]) -> None:
    missing = [str(path) for path in proof if not path.exists()]
    if missing or not proof:
        raise ServiceError(f"{half} lacks {', '.join(missing) or 'everything'}; run odograph setup again")
    cache.write_manifest(half, proof)
    remove_tree(target)
    half.rename(target)


def _apt_install(*packages: str) -> None:
    named = ", ".join(packages)
    if shutil.which("apt-get") is None:
        raise ServiceError(f"there is no apt-get here; install {named} by this system's means{WITHOUT_ROOT}")
    _require_root(f"installing {named}")
    apt = ("env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-o", "DPkg::Lock::Timeout=300")
    install = (*apt, "-y", "--no-install-recommends", "-q", "install", *packages)
    commands = {
        (*apt, "-q", "update"): r"^Get:\d+ \S+ (.*)",
        install: r"^(?:Get:\d+ \S+ \S+ \S+|Unpacking|Setting up) (\S+)",
    }
    run_shown(f"apt: {named}", None, commands)


def _require_root(what: str) -> None:
    if os.geteuid() != 0:
        raise ServiceError(f"{what} needs root: run once as root{WITHOUT_ROOT}")


def say(text: str) -> None:
    """One line on standard error."""
    Console(stderr=True, highlight=False).print(text, markup=False, soft_wrap=True)


def run_shown(name: str, grows: Path | None, commands: Mapping[tuple[str, ...], str]) -> None:
    """Run commands and show how far they are: a live line on a terminal, else a line now and then.

    A line of output that matches a command's pattern is a step, named by the pattern's group. ``grows`` is a
    folder whose size shows progress too. Raises ServiceError with the command and its last lines.
    """
    console = Console(stderr=True, highlight=False)
    live = console.status(name) if console.is_terminal else None
    steps, began_s = ["at work"], time.monotonic()

    def figures() -> str:
        took = f"{time.monotonic() - began_s:.0f} s"
        size = "" if grows is None else f", {cache.folder_bytes(grows) / MIB:.0f} MiB"
        return f"{len(steps) - 1} steps, {took}{size}"

    def report(ended: threading.Event) -> None:
        while not ended.wait(1.0 if live is not None else EVERY_S):
            (say if live is None else live.update)(f"{name}: {steps[-1]}, {figures()}")

    say(f"{name}: fetching")
    with live or nullcontext(), in_background("progress", report):
        for command, step in commands.items():
            _run(name, command, re.compile(step), steps)
    say(f"{name}: done, {figures()}")


def _run(name: str, command: Sequence[str], step: re.Pattern[str], steps: list[str]) -> None:
    last: deque[str] = deque(maxlen=15)
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, errors="replace",
    ) as child:  # fmt: skip
        for line in child.stdout or ():
            last.append(line.rstrip())
            if found := step.match(line):
                steps.append(found[1])
    if child.returncode != 0:
        lines = "\n".join(f"  | {line}" for line in last)
        raise ServiceError(f"{name} failed ({child.returncode}): {shlex.join(command)}\n{lines}")
