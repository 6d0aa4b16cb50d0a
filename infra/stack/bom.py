"""The bill of materials of this installation, in CycloneDX 1.6: ``odograph bom``."""

import re
from collections.abc import Iterable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Any
from urllib.parse import quote

from infra.stack import cache

STATUS = Path("var/lib/dpkg/status")
Component = dict[str, Any]


def bill(folder: Path) -> dict[str, Any]:
    """Python packages, pinned jars, those inside PySpark, and Debian packages of the cache ``folder``.

    Debian's are there once the root file system was built.
    """
    us, *python = sorted(_python(), key=lambda found: (found["name"] != "odograph", found["name"].lower()))
    components = [*python, *_jars(), *_debian(cache.rootfs_dir(folder))]
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
    for jar in cache.pinned_jars():
        purl = f"pkg:maven/{jar.group}/{jar.artifact}@{jar.version}"
        yield _component(purl, jar.artifact, jar.version, jar.sha256, jar.group)
    spark = metadata.version("pyspark")
    for name, sha256 in cache.recorded(cache.pyspark_jars()).items():
        stem = re.fullmatch(r"(.+?)-(\d.*)\.jar", name)
        artifact, version = (stem[1], stem[2]) if stem else (name, "")
        yield _component(f"pkg:pypi/pyspark@{spark}#jars/{name}", artifact, version, sha256)


def _debian(root: Path) -> Iterable[Component]:
    text = (root / STATUS).read_text() if cache.is_complete(root) else ""
    for block in text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if re.match(r"[A-Z][\w-]*: ", line))
        if fields.get("Status") == "install ok installed":
            name, version, arch = fields["Package"], fields["Version"], fields["Architecture"]
            purl = f"pkg:deb/debian/{name}@{quote(version)}?arch={arch}&distro={cache.SUITE}"
            yield _component(purl, name, version)
