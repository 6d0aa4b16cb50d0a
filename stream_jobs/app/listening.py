"""What Spark says about its streaming queries, taken as the text that it is.

PySpark builds an event object for each batch, and asks the Java machine for a class by its name some fifty
times to do so. Each question goes through every jar of the class path: a quarter of the processor time that
Java's threads spent on small batches.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

import orjson
from pyspark import SparkContext
from pyspark.sql.streaming.listener import (
    JStreamingQueryListener,
    QueryProgressEvent,
    StreamingQueryListener,
)


class Listener(StreamingQueryListener):
    """A listener that is given the progress of a batch as a mapping, in the words of Spark's JSON."""

    @abstractmethod
    def progressed(self, progress: Mapping[str, Any]) -> None:
        """A batch is done."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802  Spark's name
        """PySpark's own way in: dear, and the same."""
        self.progressed(orjson.loads(event.progress.json))

    @property
    def _jlistener(self) -> Any:
        """What PySpark registers in its place: Spark's wrapper around ``_Calls``."""
        jvm: Any = SparkContext._jvm
        return jvm.PythonStreamingQueryListenerWrapper(_Calls(self))


class _Calls(JStreamingQueryListener):
    """The calls that come from Java."""

    pylistener: Listener

    def onQueryProgress(self, jevent: Any) -> None:  # noqa: N802  Spark's name
        """The text of the event, and nothing else, comes over."""
        self.pylistener.progressed(orjson.loads(jevent.progress().json()))
