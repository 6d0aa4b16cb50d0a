"""Files below a folder, or below a URL that Hadoop knows (hdfs, s3a, abfs, viewfs, file): checkpoints, and
the archive's second place.

URLs by the Java machine of the Spark session: its class path and HADOOP_CONF_DIR say which schemes there are.
"""

import shutil
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from infra.contract.errors import ArchiveError, ConfigError
from infra.settings.settings import Settings

COPYING: Final = ".copying"  # end of a name while its file is not whole


@dataclass(frozen=True, slots=True)
class LocalFiles:
    """Files of this machine below the folder ``root``."""

    root: str

    def at(self, name: str) -> str:
        return str(Path(self.root, name).absolute())

    def read(self, name: str) -> str | None:
        path = Path(self.root, name)
        return path.read_text() if path.exists() else None

    def write(self, name: str, text: str) -> None:
        path = Path(self.root, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.with_name(f".{path.name}.crc").unlink(missing_ok=True)  # Hadoop's sum of what was there
        path.write_text(text)

    def names(self, folder: str) -> list[str]:
        return [path.name for path in Path(self.root, folder).glob("*")]

    def move(self, name: str, target: str) -> None:
        Path(target).parent.mkdir(parents=True, exist_ok=True)
        shutil.move(Path(self.root, name), target)  # what is beside the root may be another disk

    def remove(self, name: str) -> None:
        shutil.rmtree(Path(self.root, name))


class HadoopStore:
    """The same below the URL ``root``, the value of ``setting``, and what the archive asks.

    Its errors are ArchiveError. Raises ConfigError for an unknown scheme.
    """

    def __init__(self, spark: SparkSession, root: str, setting: str = "ODOGRAPH_ARCHIVE_URL") -> None:
        self.root = root.rstrip("/")
        jvm: Any = spark._jvm
        self._path_of = jvm.org.apache.hadoop.fs.Path
        self._text_of = jvm.org.apache.commons.io.IOUtils.toString
        try:
            self._fs = self._path_of(self.root).getFileSystem(spark._jsc.hadoopConfiguration())
        except Py4JJavaError as error:
            raise ConfigError(
                f"{setting} {root}: {_reason(error)}. The scheme's jars must be on Spark's class "
                "path, its settings in HADOOP_CONF_DIR"
            ) from error

    def sizes(self, folder: str) -> dict[str, int]:
        """Bytes of the files of a folder, by name; none where there is no such folder."""
        path = self._at(folder)
        with self._errors(folder):
            found = self._fs.listStatus(path) if self._fs.exists(path) else ()
            return {each.getPath().getName(): each.getLen() for each in found}

    def put(self, local: Path, name: str) -> None:
        """Copy a file there: under another name first, since rename is what all of them do at once."""
        draft, target = self._at(name + COPYING), self._at(name)
        with self._errors(name):
            self._fs.mkdirs(target.getParent())
            self._fs.copyFromLocalFile(False, True, self._path_of(f"file://{local}"), draft)
            size = self._fs.getFileStatus(draft).getLen()
            if size != local.stat().st_size:
                raise ArchiveError(f"{self.root}/{name}: {size} bytes arrived of {local.stat().st_size}")
            self._fs.delete(target, False)
            if not self._fs.rename(draft, target):
                raise ArchiveError(f"{self.root}/{name} cannot be renamed to its name")

    def get(self, name: str, local: Path) -> None:
        with self._errors(name):
            self._fs.copyToLocalFile(False, self._at(name), self._path_of(f"file://{local}"), True)

    def remove(self, name: str) -> None:
        """A file, or a folder with what is in it."""
        with self._errors(name):
            self._fs.delete(self._at(name), True)

    def at(self, name: str) -> str:
        return f"{self.root}/{name}"

    def read(self, name: str) -> str | None:
        with self._errors(name):
            if not self._fs.exists(self._at(name)):
                return None
            with closing(self._fs.open(self._at(name))) as stream:
                return str(self._text_of(stream, "UTF-8"))

    def write(self, name: str, text: str) -> None:
        with self._errors(name), closing(self._fs.create(self._at(name), True)) as stream:
            stream.write(bytearray(text.encode()))

    def names(self, folder: str) -> list[str]:
        return [*self.sizes(folder)]

    def move(self, name: str, target: str) -> None:
        with self._errors(name):
            place = self._path_of(target)
            self._fs.mkdirs(place.getParent())
            if not self._fs.rename(self._at(name), place):
                raise ArchiveError(f"{self.root}/{name} cannot be renamed to {target}")

    def _at(self, name: str) -> Any:
        return self._path_of(f"{self.root}/{name}" if name else self.root)

    @contextmanager
    def _errors(self, name: str) -> Iterator[None]:
        try:
            yield
        except Py4JJavaError as error:
            raise ArchiveError(f"{self.root}/{name}: {_reason(error)}") from error


def _reason(error: Py4JJavaError) -> str:
    return str(error.java_exception.toString()).partition("\n")[0]


Files = LocalFiles | HadoopStore


def checkpoint_files(settings: Settings, spark: Callable[[], SparkSession], beside: str = "") -> Files:
    """Where checkpoints lie, or ``beside`` that with so much behind the name; ``spark`` is asked for a
    session where that is a URL.
    """
    place = f"{settings.paths.place('checkpoints')}{beside}"
    return HadoopStore(spark(), place, "ODOGRAPH_PATHS_CHECKPOINTS") if "://" in place else LocalFiles(place)
