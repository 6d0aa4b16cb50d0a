"""The parent of Spark's Python workers: loads once what all of them need, before they are forked.

A worker collects garbage after each of its tasks. What is loaded here is frozen: it is left out of that (it
was half of a worker's time in batches of 300 frames), and its pages are shared. What tasks have freed
goes back to the system (MemoryReturn): glibc would keep it, 50 MiB a worker.
"""

import gc
from collections.abc import Iterator
from itertools import groupby, pairwise
from operator import itemgetter
from typing import Any, Final

import numpy as np
import pandas as pd
from pyspark import daemon, worker
from pyspark.sql.pandas.serializers import ArrowStreamSerializer, TransformWithStateInPandasSerializer
from pyspark.sql.streaming.stateful_processor_util import TransformWithStateInPandasFuncMode as Mode

from stream_jobs.app import telemetry
from stream_jobs.app.session import MemoryReturn
from stream_jobs.archive import writer as archive_writer

LOADED: Final = (archive_writer, telemetry, worker)


class ByColumn(TransformWithStateInPandasSerializer):
    """Rows of a key, a whole number, as slices of what came: Spark's own makes each a tuple, 10 us a row."""

    def load_stream(self, stream: Any) -> Iterator[tuple[Mode, Any, Any]]:
        """See Spark's."""
        place = self.key_offsets[0]  # type: ignore[index]

        def chunks() -> Iterator[tuple[tuple[int], pd.DataFrame]]:
            for batch in ArrowStreamSerializer.load_stream(self, stream):
                keys = batch.column(place).to_numpy()
                begins = np.flatnonzero(np.diff(keys, prepend=keys[:1] - 1)).tolist()
                for begin, end in pairwise([*begins, len(keys)]):
                    yield (int(keys[begin]),), batch.slice(begin, end - begin).to_pandas()

        for key, of_key in groupby(chunks(), key=itemgetter(0)):
            yield Mode.PROCESS_DATA, key, of_key
        yield Mode.PROCESS_TIMER, None, None
        yield Mode.COMPLETE, None, None


if __name__ == "__main__":
    worker.TransformWithStateInPandasSerializer = ByColumn  # type: ignore[attr-defined]
    gc.callbacks.append(MemoryReturn())
    gc.collect()
    gc.freeze()
    daemon.manager()
