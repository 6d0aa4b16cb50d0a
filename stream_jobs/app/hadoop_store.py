"""Files on any file system that Hadoop knows by its URL (hdfs, s3a, abfs, viewfs, file): the archive's second
place, and checkpoints.

By the Java machine of the Spark session: its class path and HADOOP_CONF_DIR say which schemes there are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from infra.contract.errors import ArchiveError, ConfigError
from infra.settings.settings import Settings
from stream_jobs.app.checkpoints import Files, LocalFiles

COPYING: Final = ".copying"
"""End of a name while its file is not whole."""


class HadoopStore:
    """Files by their path below ``url``, the value of ``setting``, with ``/``; errors are ArchiveError.

    Raises ConfigError for an unknown scheme.
    """

    def __init__(self, spark: SparkSession, url: str, setting: str = "ODOGRAPH_ARCHIVE_URL") -> None:
        self._url = url.rstrip("/")
        jvm: Any = spark._jvm
        self._path_of = jvm.org.apache.hadoop.fs.Path
        self._text_of = jvm.org.apache.commons.io.IOUtils.toString
        try:
            conf = spark._jsc.hadoopConfiguration()
            self._fs = self._path_of(self._url).getFileSystem(conf)
        except Py4JJavaError as error:
            raise ConfigError(
                f"{setting} {url}: {_reason(error)}. The scheme's jars must be on Spark's class "
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
                raise ArchiveError(f"{self._url}/{name}: {size} bytes arrived of {local.stat().st_size}")
            self._fs.delete(target, False)
            if not self._fs.rename(draft, target):
                raise ArchiveError(f"{self._url}/{name} cannot be renamed to its name")

    def get(self, name: str, local: Path) -> None:
        """Copy a file from there."""
        with self._errors(name):
            self._fs.copyToLocalFile(False, self._at(name), self._path_of(f"file://{local}"), True)

    def remove(self, name: str) -> None:
        """Delete a file; one that is not there is no error."""
        with self._errors(name):
            self._fs.delete(self._at(name), False)

    @property
    def root(self) -> str:
        """The URL."""
        return self._url

    def at(self, name: str) -> str:
        """The URL of a file."""
        return f"{self._url}/{name}"

    def read(self, name: str) -> str | None:
        """The text of a file; None without one."""
        with self._errors(name):
            if not self._fs.exists(self._at(name)):
                return None
            stream = self._fs.open(self._at(name))
            try:
                return str(self._text_of(stream, "UTF-8"))
            finally:
                stream.close()

    def write(self, name: str, text: str) -> None:
        """Make a file, or replace it."""
        with self._errors(name):
            stream = self._fs.create(self._at(name), True)
            try:
                stream.write(bytearray(text.encode()))
            finally:
                stream.close()

    def names(self, folder: str) -> list[str]:
        """What is in a folder; [] without one."""
        return [*self.sizes(folder)]

    def move(self, name: str, target: str) -> None:
        """Rename a folder."""
        with self._errors(name):
            place = self._path_of(target)
            self._fs.mkdirs(place.getParent())
            if not self._fs.rename(self._at(name), place):
                raise ArchiveError(f"{self._url}/{name} cannot be renamed to {target}")

    def _at(self, name: str) -> Any:
        return self._path_of(f"{self._url}/{name}" if name else self._url)

    @contextmanager
    def _errors(self, name: str) -> Iterator[None]:
        try:
            yield
        except Py4JJavaError as error:
            raise ArchiveError(f"{self._url}/{name}: {_reason(error)}") from error


def _reason(error: Py4JJavaError) -> str:
    return str(error.java_exception.toString()).partition("\n")[0]


def checkpoint_files(settings: Settings, spark: Callable[[], SparkSession]) -> Files:
    """Where checkpoints lie; ``spark`` is asked for a session where that is a URL."""
    place = settings.paths.place("checkpoints")
    return HadoopStore(spark(), place, "ODOGRAPH_PATHS_CHECKPOINTS") if "://" in place else LocalFiles(place)
