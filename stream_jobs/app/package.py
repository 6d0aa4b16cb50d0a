"""The environment of Spark's Python workers as one archive: interpreter, packages, and all that they need.

Executors unpack it into their working folder (spark.archives), so a host of the cluster needs Spark and Java,
and nothing of ours: no Python, no checkout. PySpark itself is a part of Spark.
"""

from __future__ import annotations

import os
import sys
import sysconfig
import tarfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Final

import infra
import stream_jobs

OURS: Final = (infra, stream_jobs)
LEFT_OUT: Final = frozenset({
    "pyspark", "streamlit", "pydeck", "altair", "pillow", "pip", "setuptools", "odograph",
    "playwright", "mypy", "ruff", "hypothesis", "pandas-stubs", "pytest", "import-linter", "grimp",
    "kubernetes-validate",
})  # fmt: skip
"""Distributions that no worker imports: Spark's own, the dashboard's, tools."""
NOT_OF_THE_LIBRARY: Final = frozenset(
    {"site-packages", "test", "idlelib", "ensurepip", "tkinter", "turtledemo"}
)

NEVER_IMPORTED: Final = frozenset({"..", "tests", "include"})
"""Folders of a distribution; ``..`` leads to its programs."""


def build(target: Path) -> Path:
    """Write the archive (tar.gz), whole or not at all."""
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = target.with_name(f".{target.name}.{os.getpid()}")
    with tarfile.open(draft, "w:gz", compresslevel=1) as archive:
        for path, name in sorted(set(_files()), key=lambda pair: pair[1]):
            archive.add(path, name, recursive=False)
    draft.replace(target)
    return target


def _files() -> Iterator[tuple[Path, str]]:
    """Each file and its name in the archive, which is laid out as an interpreter looks for its library."""
    library = f"lib/python{sys.version_info.major}.{sys.version_info.minor}"
    interpreter = Path(os.path.realpath(sys.executable))
    yield interpreter, "bin/python3"
    for shared in Path(sysconfig.get_config_var("LIBDIR")).glob("libpython*.so.*"):
        yield shared, f"lib/{shared.name}"
    standard = Path(sysconfig.get_path("stdlib"))
    for path in _below(standard):
        first = path.relative_to(standard).parts[0]
        if first not in NOT_OF_THE_LIBRARY and not first.startswith("config-"):
            yield path, f"{library}/{path.relative_to(standard)}"
    packages = f"{library}/site-packages"
    site = Path(sysconfig.get_path("platlib"))
    for distribution in metadata.distributions(path=[str(site)]):
        if distribution.metadata["Name"].lower() not in LEFT_OUT:
            for file in distribution.files or ():
                path = Path(str(distribution.locate_file(file)))
                if not NEVER_IMPORTED.intersection(file.parts) and path.is_file():
                    yield path, f"{packages}/{file}"
    for package in OURS:
        root = Path(str(package.__file__)).parent
        for path in _below(root):
            yield path, f"{packages}/{package.__name__}/{path.relative_to(root)}"


def _below(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc")
