"""What the set-up has fetched, by its place in the user's cache, and whether it is still that. No fetching.

What programs load is known by SHA-256: jars by ``jars.sha256``, PySpark's by what pip has installed, all else
by the manifest that was written when it was fetched.
"""

import base64
import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from infra.contract.errors import ServiceError

IVY_FILE = Path(__file__).with_name("ivy.xml")
JAR_PINS = Path(__file__).with_name("jars.sha256")
SUITE = "trixie"
PACKAGES = ("postgresql-17-timescaledb", "mosquitto", "mosquitto-clients")
MANIFEST = ".odograph-manifest.json"
POSTGRES_BIN = "/usr/lib/postgresql/17/bin"


def pins() -> str:
    """Stands for the pinned versions: what was fetched by other pins is fetched again."""
    return hashlib.sha256(IVY_FILE.read_bytes() + " ".join((SUITE, *PACKAGES)).encode()).hexdigest()[:16]


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
    """Java's options by which programs of a set of jars load their classes ready-made; none where not made.

    At the address it was made for, the archive is a file's memory that several programs share.
    """
    archive = class_dir(cache) / f"{name}.jsa"
    in_place = ("-XX:+UnlockDiagnosticVMOptions", "-XX:ArchiveRelocationMode=0")
    return (f"-XX:SharedArchiveFile={archive}", *in_place) if archive.exists() else ()


def class_archives(cache: Path) -> tuple[Path, ...]:
    """The folder of the class archives, where they were made."""
    folder = class_dir(cache)
    return (folder,) if is_complete(folder) else ()


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
    """Note pins, the sizes of files by which the folder is known to be whole, hashes of what is loaded."""
    sizes = {str(path.relative_to(folder)): path.stat().st_size for path in files}
    noted = {"pins": pins(), "sizes": sizes, "sha256": dict(hashed(folder, loaded(folder)))}
    (folder / MANIFEST).write_text(json.dumps(noted, indent=1))


def is_complete(folder: Path) -> bool:
    """Whether the folder was fetched by today's pins and every file of its manifest is there in its size."""
    try:
        manifest = json.loads((folder / MANIFEST).read_text())
        sizes: dict[str, int] = manifest["sizes"]
        whole = all((folder / name).stat().st_size == size for name, size in sizes.items())
        return whole and manifest["pins"] == pins() and "sha256" in manifest
    except (FileNotFoundError, NotADirectoryError, json.JSONDecodeError, KeyError):
        return False


LOADED: Final = ("*.jar", "*.jsa", "usr/bin/*", "usr/sbin/*", "usr/lib/**/*", "usr/share/postgresql/**/*")
"""What programs load of what was fetched; of the root file system programs, libraries and SQL."""


class Jar(NamedTuple):
    """A pinned jar: its hash, its set (``spark``, ``kafka``, ``mirror``, ``hdfs``), Maven's names for it."""

    sha256: str
    kind: str
    group: str
    artifact: str
    version: str


def pinned_jars() -> tuple[Jar, ...]:
    """Every jar of ``ivy.xml``, ``mirror.xml`` and ``hdfs.xml``, with all that it needs."""
    return tuple(Jar(*line.replace(":", " ").split()) for line in JAR_PINS.read_text().splitlines())


def loaded(folder: Path) -> Iterator[str]:
    """Names below the folder of the files that programs load."""
    found = (path for form in LOADED for path in folder.glob(form))
    return (str(path.relative_to(folder)) for path in found if path.is_file() and not path.is_symlink())


def hashed(folder: Path, names: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Each file's name and its SHA-256; empty where it is not there."""
    for name in names:
        try:
            with (folder / name).open("rb") as file:
                yield name, hashlib.file_digest(file, "sha256").hexdigest()
        except FileNotFoundError:
            yield name, ""


def recorded(folder: Path) -> Mapping[str, str]:
    """SHA-256 by name of what programs load of a folder, as it must be; raises ServiceError without any."""
    if folder == pyspark_jars():
        jars_of = (file for file in metadata.files("pyspark") or () if file.match("pyspark/jars/*.jar"))
        texts = {file.name: file.hash.value for file in jars_of if file.hash}
        return {name: base64.urlsafe_b64decode(f"{text}==").hex() for name, text in texts.items()}
    pinned = {f"{j.artifact}-{j.version}.jar": j.sha256 for j in pinned_jars() if j.kind == folder.name}
    if pinned and folder.parent.name == "jars":
        return pinned
    return dict(json.loads((folder / MANIFEST).read_text())["sha256"])


def verify(*folders: Path, note: Callable[[str], None] = lambda _: None) -> None:
    """Raise ServiceError naming what programs would load of these folders and is not what was fetched.

    ``note`` gets that first, for the audit log.
    """
    for folder in folders:
        wanted = recorded(folder)
        found = dict(hashed(folder, {*wanted, *loaded(folder)}))
        wrong = sorted(name for name, sha256 in found.items() if sha256 != wanted.get(name))
        if wrong:
            what = {name: "was altered" if name in wanted else "does not belong there" for name in wrong}
            again = "pip install --force-reinstall pyspark" if folder == pyspark_jars() else "odograph setup"
            named = ", ".join(f"{folder / name} {what[name]}" for name in wrong[:5])
            note(f"start: {named}")
            raise ServiceError(
                f"{named} (SHA-256): nothing is started. Find out who wrote there; then remove {folder} and "
                f"run: {again}"
            )


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


STATUS = Path("var/lib/dpkg/status")
Component = dict[str, Any]


def bill(folder: Path) -> dict[str, Any]:
    """Python packages, pinned jars, those inside PySpark, and Debian packages of the cache ``folder``.

    Debian's are there once the root file system was built.
    """
    us, *python = sorted(_python(), key=lambda found: (found["name"] != "odograph", found["name"].lower()))
    components = [*python, *_jars(), *_debian(rootfs_dir(folder))]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": us | {"type": "application"}},
        "components": components,
    }


def _component(purl: str, name: str, version: str, sha256: str = "", group: str = "") -> Component:
    made: Component = {"type": "library", "bom-ref": purl, "purl": purl, "name": name, "version": version}
    made |= {"group": group} if group else {}
    return made | ({"hashes": [{"alg": "SHA-256", "content": sha256}]} if sha256 else {})


def _python() -> Iterator[Component]:
    found = {re.sub(r"[-_.]+", "-", d.name).lower(): d.version for d in metadata.distributions()}
    for name, version in found.items():
        yield _component(f"pkg:pypi/{name}@{version}", name, version)


def _jars() -> Iterator[Component]:
    for jar in {(j.group, j.artifact, j.version): j for j in pinned_jars()}.values():
        purl = f"pkg:maven/{jar.group}/{jar.artifact}@{jar.version}"
        yield _component(purl, jar.artifact, jar.version, jar.sha256, jar.group)
    spark = metadata.version("pyspark")
    for name, sha256 in recorded(pyspark_jars()).items():
        stem = re.fullmatch(r"(.+?)-(\d.*)\.jar", name)
        artifact, version = (stem[1], stem[2]) if stem else (name, "")
        yield _component(f"pkg:pypi/pyspark@{spark}#jars/{name}", artifact, version, sha256)


def _debian(root: Path) -> Iterable[Component]:
    text = (root / STATUS).read_text() if is_complete(root) else ""
    for block in text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if re.match(r"[A-Z][\w-]*: ", line))
        if fields.get("Status") == "install ok installed":
            name, version, arch = fields["Package"], fields["Version"], fields["Architecture"]
            purl = f"pkg:deb/debian/{name}@{quote(version)}?arch={arch}&distro={SUITE}"
            yield _component(purl, name, version)
