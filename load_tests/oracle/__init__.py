"""What the tables must hold, computed one sample at a time from the definitions, without the jobs' code."""

from load_tests.oracle.edges import Roads, edge_of
from load_tests.oracle.road import cell_of
from load_tests.oracle.rollups import expect_rollup
from load_tests.oracle.samples import Limits, Row, Sample, samples, verdict
from load_tests.oracle.tables import Expected, counted, expect

__all__ = [
    "Expected",
    "Limits",
    "Roads",
    "Row",
    "Sample",
    "cell_of",
    "counted",
    "edge_of",
    "expect",
    "expect_rollup",
    "samples",
    "verdict",
]
