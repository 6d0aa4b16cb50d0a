"""The environment of Spark's Python workers on a cluster: packed here, unpacked once by each host."""

import hashlib
import os
import py_compile
import re
import sys
import sysconfig
import tarfile
from collections.abc import Iterable, Iterator
from importlib import metadata
from importlib.util import cache_from_source
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import infra
import stream_jobs
from infra.contract.errors import ConfigError
from infra.settings.sections import Jobs

LAUNCHER: Final = Path(__file__).with_name("environment.sh")
"""What executors start as Python: it unpacks the archive where that is not done."""
PACKED: Final = "environment.pack"
UNPACKED_BY_SPARK: Final = (".tar.gz", ".tgz", ".tar")  # each executor would, in the midst of its files


def shipped(jobs: Jobs, scratch: Path) -> dict[str, str]:
    """Spark's settings by which executors have launcher and archive, a link to which goes to ``scratch``.

    Raises ConfigError where there is no archive, or Spark would unpack it.
    """
    place, sha256 = jobs.environment, ""
    if "://" not in place:
        archive, place = Path(place).absolute(), str(scratch / PACKED)
        if not archive.is_file():
            raise ConfigError(f"ODOGRAPH_JOBS_ENVIRONMENT: {archive} is not there; odograph jobs package")
        Path(place).unlink(missing_ok=True)
        Path(place).symlink_to(archive)
        with archive.open("rb") as file:
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    elif place.endswith(UNPACKED_BY_SPARK):
        raise ConfigError(f"ODOGRAPH_JOBS_ENVIRONMENT: {place} wants another name, as {PACKED}: see README")
    told = {"": place.rpartition("/")[2], "_SHA256": sha256, "_CACHE": jobs.environment_cache}
    told["_SPARK"] = metadata.version("pyspark")
    return {
        "spark.files": f"{LAUNCHER},{place}",
        "spark.executorEnv.PYTHONPATH": "",  # no checkout that a host may have
        **{f"spark.executorEnv.ODOGRAPH_ENVIRONMENT{name}": value for name, value in told.items() if value},
    }


OURS: Final = (infra, stream_jobs)
LEFT_OUT: Final = frozenset(
    {"streamlit", "pydeck", "pillow", "authlib", "cryptography", "httpx", "starlette"}
)
"""Requirements that only other programs need."""
NOT_OF_THE_LIBRARY: Final = frozenset(
    {"site-packages", "test", "idlelib", "ensurepip", "tkinter", "turtledemo"}
)

NEVER_IMPORTED: Final = re.compile(
    r"(^|/)(\.\.|tests|include)/|libarrow_(flight|s3)\."
    r"|^pyspark/(jars|bin|sbin|data|licenses|examples|python|pandas|ml|mllib)/"
)
"""Of a distribution: programs (``..``), tests, headers; of Arrow what speaks to services, 49 MB; of PySpark
what its workers do not need.
"""


def pack_environment(target: Path) -> Path:
    """Write the environment of Spark's Python workers (tar.gz), whole or not at all, unless it is there.

    A host of the cluster needs Spark and Java, and nothing of ours. Each module is there compiled. Beside the
    archive lies the digest of its files' names, sizes and times: while these are the same, it is kept.
    """
    files = sorted(set(_files()), key=lambda pair: pair[1])
    known, digest = target.with_name(f"{target.name}.files"), hashlib.sha256()
    for path, name in files:
        found = path.stat()
        digest.update(f"{name} {found.st_size} {found.st_mtime_ns}\n".encode())
    if target.exists() and known.exists() and known.read_text() == digest.hexdigest():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = target.with_name(f".{target.name}.{os.getpid()}")
    with tarfile.open(draft, "w:gz", compresslevel=1) as archive:
        for path, name in chain(files, _compiled(files)):
            archive.add(path, name, recursive=False)
    known.unlink(missing_ok=True)
    draft.replace(target)
    known.write_text(digest.hexdigest())
    return target


def _compiled(files: Iterable[tuple[Path, str]]) -> Iterator[tuple[Path, str]]:
    """Modules whose compiled file is not among the ``files``: nobody else would keep it."""
    names = {name for _, name in files}
    with TemporaryDirectory() as folder:
        for path, name in files:
            if name.endswith(".py") and (made := cache_from_source(name)) not in names:
                found = py_compile.compile(
                    str(path), f"{folder}/module.pyc", name, quiet=2,
                    invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
                )  # fmt: skip
                if found is not None:
                    yield Path(found), made


def _files() -> Iterator[tuple[Path, str]]:
    """Each file and its name in the archive, which is laid out as an interpreter looks for its library."""
    library = f"lib/python{sys.version_info.major}.{sys.version_info.minor}"
    yield Path(os.path.realpath(sys.executable)), "bin/python3"
    for shared in Path(sysconfig.get_config_var("LIBDIR")).glob("libpython*.so.*"):
        yield shared, f"lib/{shared.name}"
    standard = Path(sysconfig.get_path("stdlib"))
    for path in _below(standard, f".{sys.implementation.cache_tag}.pyc"):
        first = path.relative_to(standard).parts[0]
        if first not in NOT_OF_THE_LIBRARY and not first.startswith("config-"):
            yield path, f"{library}/{path.relative_to(standard)}"
    packages = f"{library}/site-packages"
    for distribution in _required().values():
        for file in distribution.files or ():
            path = Path(str(distribution.locate_file(file)))
            if not NEVER_IMPORTED.search(str(file)) and path.is_file():
                yield path, f"{packages}/{file}"
    for package in OURS:
        root = Path(str(package.__file__)).parent
        for path in _below(root):
            yield path, f"{packages}/{package.__name__}/{path.relative_to(root)}"


def _required() -> dict[str, metadata.Distribution]:
    """What we require, and what that requires, by name."""
    found: dict[str, metadata.Distribution] = {}
    todo = [("odograph", frozenset[str]())]
    while todo:
        name, extras = todo.pop()
        for text in metadata.requires(name) or ():
            wanted = Requirement(text)
            other = canonicalize_name(wanted.name)
            here = wanted.marker is None or any(wanted.marker.evaluate({"extra": e}) for e in extras | {""})
            if here and other not in LEFT_OUT | found.keys():
                found[other] = metadata.distribution(other)
                todo.append((other, frozenset(wanted.extras)))
    return found


def _below(folder: Path, compiled: str = ".none") -> Iterator[Path]:
    found = (path for path in folder.rglob("*") if path.is_file())
    return (path for path in found if path.suffix != ".pyc" or path.name.endswith(compiled))
