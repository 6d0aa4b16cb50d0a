"""Which values of a frame or a crash record count: the one authority, for arrays, Arrow columns and Spark.

A number outside its signal's range (infra/contract/signals.py) is not available, and so are both coordinates
where they are exactly 0: a receiver without a fix. NaN is not available either. A frame whose fixes lie
further apart than a vehicle can drive meanwhile has no fix: one of them jumped, and which one it does not
tell. ``Signal.holds``, ``nowhere`` and ``astray`` judge numpy arrays and build the Spark expressions alike.
"""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  Spark's own convention

from infra.contract.signals import BY_NAME, JUMP_M, M_PER_DEG, TOP_MPS

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
POSITION: Final = ("lat_deg", "lon_deg")
_GIVEN: Final = "given_"
PARTNER: Final = dict(zip(POSITION, reversed(POSITION), strict=True))


def nowhere(lat_deg: Any, lon_deg: Any) -> Any:
    """Whether both coordinates are exactly 0, or -0: flags of arrays, a condition of Spark columns."""
    return (lat_deg == 0) & (lon_deg == 0)


def astray(lat_deg: Any, lon_deg: Any, span_ms: Any) -> Any:
    """Whether fixes of a frame of ``span_ms`` that lie so far apart (deg) hold a jump; null and NaN: no."""
    reach_deg = (span_ms * (TOP_MPS / 1000) + JUMP_M) / M_PER_DEG
    return (lat_deg > reach_deg) | ((lon_deg > reach_deg) & (lon_deg < 360 - reach_deg))


def strays(lat_deg: Floats, lon_deg: Floats, n: npt.NDArray[np.int64], dt_ms: npt.NDArray[np.int64]) -> Flags:
    """Which frames hold a jump, [n_frames]; coordinates by sample, those that do not count NaN."""
    begins = np.cumsum(n) - n
    lat, lon = (np.fmax.reduceat(x, begins) - np.fmin.reduceat(x, begins) for x in (lat_deg, lon_deg))
    found: Flags = astray(lat, lon, (n - 1) * dt_ms)
    return found


def counts(name: str, values: Floats, partner: Floats | None = None) -> Flags:
    """Which values of a signal count, NaN never; a coordinate has the other one as ``partner``."""
    holds: Flags = BY_NAME[name].holds(values)
    return holds if partner is None else holds & ~nowhere(values, partner)


def by_sample(column: pa.ListArray, n: npt.NDArray[np.int64]) -> Floats:
    """A fast signal, ``n`` values a frame, NaN where not there; what is too many goes."""
    lengths = _lengths(column)
    values: Floats = column.flatten().to_numpy(zero_copy_only=False)
    if np.array_equal(lengths, n):
        return values
    of_sample = np.repeat(np.arange(len(n)), n)
    index = np.arange(len(of_sample)) - np.repeat(np.cumsum(n) - n, n)
    there = index < lengths[of_sample]
    at = (np.cumsum(lengths) - lengths)[of_sample] + index
    found = np.full(len(of_sample), np.nan)
    found[there] = values[at[there]]
    return found


def plausible_columns(table: pa.Table, names: Sequence[str], whole: bool = False) -> dict[str, pa.Array]:
    """The signals ``names`` of parsed frames (reading.py), null where a value does not count.

    A fast signal keeps its length; ``whole``: it has as many values as the frame has samples. ``table`` has
    both coordinates where one is asked for, and the head.
    """
    jumps: Flags | None = None
    if set(POSITION) & set(names):
        n, dt_ms = (table[name].to_numpy() for name in ("n", "dt_ms"))
        fixes = {name: by_sample(table[name].combine_chunks(), n) for name in POSITION}
        lat, lon = (np.where(counts(k, v, fixes[PARTNER[k]]), v, np.nan) for k, v in fixes.items())
        jumps = strays(lat, lon, n, dt_ms) if len(n) else None
    return {name: _plausible(table, name, jumps if name in POSITION else None, whole) for name in names}


def _plausible(table: pa.Table, name: str, jumps: Flags | None, whole: bool) -> pa.Array:
    signal, column = BY_NAME[name], table[name].combine_chunks()
    if signal.kind != "number":
        return column
    if signal.rate == "slow":
        values = column.to_numpy(zero_copy_only=False)
        return pa.array(values, pa.float64(), mask=~counts(name, values))
    n = table["n"].to_numpy() if whole else _lengths(column)
    values = by_sample(column, n)
    partner = by_sample(table[PARTNER[name]].combine_chunks(), n) if name in PARTNER else None
    holds = counts(name, values, partner)
    if jumps is not None:
        holds &= ~np.repeat(jumps, n)
    cleaned = pa.array(values, pa.float64(), mask=~holds)
    missing = None if whole else np.append(pc.is_null(column).to_numpy(zero_copy_only=False), False)
    offsets = pa.array(np.concatenate([[0], np.cumsum(n)]), pa.int32(), mask=missing)
    return pa.ListArray.from_arrays(offsets, cleaned)


def _lengths(column: pa.ListArray) -> npt.NDArray[np.int64]:
    lengths: npt.NDArray[np.int64] = pc.fill_null(pc.list_value_length(column), 0).to_numpy().astype(np.int64)
    return lengths


def with_plausible(rows: DataFrame, names: Sequence[str]) -> DataFrame:
    """Frames of Spark with the signals ``names`` null where a value does not count (elements, for an array).

    ``names`` have both coordinates or none, ``rows`` the head. What was given is kept beside under another
    name meanwhile: inside a lambda Spark takes a column's name for that of a new column of the same select.
    """
    given = {_GIVEN + name: F.col(name) for name in POSITION if name in names}
    cleaned = rows.withColumns(given).withColumns({name: _plausible_column(name) for name in names})
    if not given:
        return cleaned
    n = F.greatest(F.lit(0), F.col("n")).cast("int")
    fixes = [F.slice(name, F.lit(1), n) for name in POSITION]
    lat, lon = (F.array_max(each) - F.array_min(each) for each in fixes)
    jumps = F.coalesce(astray(lat, lon, (F.col("n") - 1.0) * F.col("dt_ms")), F.lit(False))
    none = {name: F.transform(name, lambda _: F.lit(None).cast("double")) for name in POSITION}
    return cleaned.withColumns({k: F.when(jumps, v).otherwise(F.col(k)) for k, v in none.items()}).drop(
        *given
    )


def _plausible_column(name: str) -> Column:
    signal, column = BY_NAME[name], F.col(name)
    if signal.kind != "number":
        return column
    if signal.rate == "slow":
        return F.when(signal.holds(column), column)
    if name not in PARTNER:
        # Nearly always all values count, and that is compiled; Spark interprets a lambda.
        all_hold = signal.holds(F.array_min(column)) & signal.holds(F.array_max(column))
        return F.when(all_hold, column).otherwise(F.transform(column, lambda x: F.when(signal.holds(x), x)))
    partner = F.col(_GIVEN + PARTNER[name])
    return F.transform(column, lambda x, i: _coordinate(name, x, F.get(partner, i)))


def plausible_place() -> tuple[Column, Column]:
    """Spark columns of the one position of a crash record."""
    lat, lon = (_coordinate(name, F.col(name), F.col(PARTNER[name])).alias(name) for name in POSITION)
    return lat, lon


def _coordinate(name: str, value: Column, partner: Column) -> Column:
    """Without its partner a coordinate is not nowhere."""
    return F.when(BY_NAME[name].holds(value) & ~F.coalesce(nowhere(value, partner), F.lit(False)), value)


def place(lat_deg: float | None, lon_deg: float | None) -> tuple[float | None, float | None]:
    """One position, each coordinate None where it does not count."""
    pair = np.array([[np.nan if x is None else x] for x in (lat_deg, lon_deg)], np.float64)
    known = [counts(name, pair[at], pair[1 - at])[0] for at, name in enumerate(POSITION)]
    return lat_deg if known[0] else None, lon_deg if known[1] else None
