"""What the set-up has fetched, by its place in the user's cache. Nothing here fetches."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

from infra.contract.errors import ServiceError

IVY_FILE = Path(__file__).with_name("ivy.xml")
SUITE = "trixie"
PACKAGES = ("postgresql-17-timescaledb", "mosquitto", "mosquitto-clients")
MANIFEST = ".odograph-manifest.json"
POSTGRES_BIN = "/usr/lib/postgresql/17/bin"


def pins() -> str:
    """Stands for the pinned versions: what was fetched by other pins is fetched again."""
    text = IVY_FILE.read_bytes() + " ".join((SUITE, *PACKAGES)).encode()
    return hashlib.sha256(text).hexdigest()[:16]


def jar_dir(cache: Path, name: str) -> Path:
    """Folder of a set of jars."""
    return cache / "jars" / name


def jars(cache: Path, name: str) -> tuple[Path, ...]:
    """The jars of a set, ``spark`` or ``kafka``; raises ServiceError when they were not fetched."""
    folder = jar_dir(cache, name)
    if not is_complete(folder):
        raise ServiceError(f"the {name} jars are not in {folder}; fetch them: odograph setup")
    return tuple(sorted(folder.glob("*.jar")))


def pyspark_jars() -> Path:
    """The folder of jars inside PySpark, the resolver among them; raises ServiceError without PySpark."""
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise ServiceError("PySpark is not installed in this environment; run: make setup")
    return Path(spec.origin).resolve().with_name("jars")


def class_dir(cache: Path) -> Path:
    """Folder of the class archives of this Java and these jars: of others they are worth nothing."""
    java = Path(shutil.which("java") or "java").resolve()
    places = (java, java.parents[1] / "lib" / "modules", jar_dir(cache, "spark"), pyspark_jars())
    known = [(str(place), place.stat().st_mtime_ns) for place in places if place.exists()]
    return cache / "classes" / hashlib.sha256(repr(known).encode()).hexdigest()[:16]


def class_options(cache: Path, name: str) -> tuple[str, ...]:
    """Java's option by which programs of a set of jars load their classes ready-made; none where not made."""
    archive = class_dir(cache) / f"{name}.jsa"
    return (f"-XX:SharedArchiveFile={archive}",) if archive.exists() else ()


def rootfs_dir(cache: Path) -> Path:
    """Folder of the Debian root file system that PostgreSQL and Mosquitto run from."""
    return cache / f"rootfs-{SUITE}"


def rootfs(cache: Path) -> Path:
    """The root file system; raises ServiceError when it was not built."""
    folder = rootfs_dir(cache)
    if not is_complete(folder):
        raise ServiceError(f"the root file system is not in {folder}; build it: odograph setup")
    return folder


def write_manifest(folder: Path, files: list[Path]) -> None:
    """Note the pins and the sizes of the files by which a folder is later known to be whole."""
    sizes = {str(path.relative_to(folder)): path.stat().st_size for path in files}
    (folder / MANIFEST).write_text(json.dumps({"pins": pins(), "sizes": sizes}, indent=1))


def is_complete(folder: Path) -> bool:
    """Whether the folder was fetched by today's pins and every file of its manifest is there in its size."""
    try:
        manifest = json.loads((folder / MANIFEST).read_text())
        sizes: dict[str, int] = manifest["sizes"]
        whole = all((folder / name).stat().st_size == size for name, size in sizes.items())
        return whole and manifest["pins"] == pins()
    except (FileNotFoundError, NotADirectoryError, json.JSONDecodeError, KeyError):
        return False


MOUNTS = Path("/proc/self/mountinfo")


def remove_tree(folder: Path) -> None:
    """Remove a folder, if it is there; raises ServiceError when something is mounted at or below it."""
    if not folder.exists():
        return
    place = str(folder.resolve())
    points = [line.split()[4].replace("\\040", " ") for line in MOUNTS.read_text().splitlines()]
    mounted = [point for point in points if point == place or point.startswith(place.rstrip("/") + "/")]
    if mounted:
        raise ServiceError(f"{folder} is not removed: {', '.join(mounted)} is mounted; umount it first")
    shutil.rmtree(folder)


def folder_bytes(folder: Path) -> int:
    """What all files below a folder take on the disk (blocks, not lengths), mounts inside it left out."""
    total = 0
    for root, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not os.path.ismount(f"{root}/{name}")]
        for name in names:
            with suppress(FileNotFoundError):
                total += os.lstat(f"{root}/{name}").st_blocks * 512
    return total
