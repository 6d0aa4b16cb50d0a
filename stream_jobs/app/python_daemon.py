"""The parent of Spark's Python workers: loads once what all of them need, before they are forked.

A worker collects garbage after each of its tasks. What is loaded here is frozen: it is left out of that (it
was half of a worker's time in batches of 300 frames), and its pages are shared. What tasks have freed
goes back to the system (MemoryReturn): glibc would keep it, 50 MiB a worker.
"""

import gc
from typing import Final

from pyspark import daemon, worker

from stream_jobs.app import telemetry
from stream_jobs.app.session import MemoryReturn
from stream_jobs.archive import writer as archive_writer

LOADED: Final = (archive_writer, telemetry, worker)

if __name__ == "__main__":
    gc.callbacks.append(MemoryReturn())
    gc.collect()
    gc.freeze()
    daemon.manager()
