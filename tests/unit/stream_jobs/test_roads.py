"""Edges by position and course, ways by speeds that change, hours of the week: by known geometry."""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import UTC, datetime
from math import cos, inf, radians, sin
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import orjson
import pyarrow as pa
import pytest
from pydantic import ValidationError

from edge_simulator.town.roads import city
from infra.contract.errors import ServiceError
from infra.contract.verdict import ClockLimits
from infra.settings.sections import Roads
from infra.settings.settings import Settings
from stream_jobs.frames.batch import frame_batch
from stream_jobs.roads.history import SQL, Forecast, RoadHistory
from stream_jobs.roads.network import (
    NO_EDGE,
    NOT_CLEAR,
    RoadIndex,
    RoadLookup,
    RoadNetwork,
    index_of,
    load,
    match,
    network_of,
    save,
)
from stream_jobs.roads.ways import (
    HOURS_A_WEEK,
    EdgeSpeeds,
    edges_after,
    hour_of_week,
    nearest,
    off_peak_hours,
    quickest,
    with_fallback,
)
from stream_jobs.windows.places import road_rows
from tests.support_frames import frame, vin

pytestmark = pytest.mark.slow

M = 1 / 111_195
"""Degrees a metre, at the equator."""


def street(edge: int, a: tuple[float, float], b: tuple[float, float], limit: float = 36.0) -> list[Any]:
    """Both directions of a straight street between points (east, north) in metres from 0, 0."""
    length = ((a[0] - b[0]) ** 2 + (a[1] - b[1]) ** 2) ** 0.5
    ends = [[a[0] * M, a[1] * M], [b[0] * M, b[1] * M]]
    return [(edge, "minor", limit, length, ends), (edge + 1, "minor", limit, length, ends[::-1])]


TOWN = network_of(
    5,
    [
        *street(10, (0, 0), (1000, 0)),
        *street(20, (1000, 0), (1000, 500)),
        *street(30, (0, 0), (0, 500)),
        *street(40, (0, 500), (1000, 500)),
    ],
)
INDEX = index_of(TOWN, Roads())
"""A block of 1000 by 500 m: south street 10, east 20, west 30, north 40; the even ids lead east and north."""


def found(east: float, north: float, course: float | None, index: RoadIndex = INDEX) -> int:
    known = np.array([course is not None])
    at = match(index, np.array([north * M]), np.array([east * M]), np.array([course or 0.0]), known)[0]
    return int(index.edge_id[at]) if at >= 0 else int(at)


@pytest.mark.parametrize(
    ("east", "north", "course", "edge"),
    [
        (500, 5, 90.0, 10),
        (500, 5, 270.0, 11),
        (500, -39, 80.0, 10),
        (500, -41, 90.0, NO_EDGE),
        (500, 5, 0.0, NO_EDGE),
        (500, 5, None, NOT_CLEAR),
        (990, 8, 0.0, 20),
        (990, 8, 90.0, 10),
        (999, 1, 45.0, NOT_CLEAR),
        (1005, 250, 180.0, 21),
        (9000, 9000, 0.0, NO_EDGE),
    ],
)
def test_a_sample_is_on_the_edge_that_fits_its_position_and_course_clearly(
    east: float, north: float, course: float | None, edge: int
) -> None:
    assert found(east, north, course) == edge


def test_two_parallel_streets_are_told_apart_by_the_margin_only() -> None:
    index = index_of(
        network_of(1, [*street(0, (0, 0), (500, 0)), *street(2, (0, 20), (500, 20))]), Roads(match_margin=0.5)
    )
    assert [found(250, north, 90.0, index) for north in (4, 10, 16)] == [0, NOT_CLEAR, 2]


def test_on_a_network_of_edges_without_a_length_no_sample_is_on_an_edge() -> None:
    assert found(0, 0, 90.0, index_of(network_of(1, street(0, (0, 0), (0, 0))), Roads())) == NO_EDGE


@dataclass(frozen=True)
class Parts:
    """Every straight part of every edge, in metres; [n_parts]."""

    edge: np.ndarray
    x: np.ndarray
    y: np.ndarray
    dx: np.ndarray
    dy: np.ndarray

    @classmethod
    def of(cls, net: RoadNetwork) -> Parts:
        lat = radians(float(net.lat_deg.mean()))
        x, y = net.lon_deg * cos(lat) / M, net.lat_deg / M
        first = np.setdiff1d(np.arange(len(x) - 1), net.first_point[1:] - 1)
        dx, dy = x[first + 1] - x[first], y[first + 1] - y[first]
        edge = np.searchsorted(net.first_point, first, side="right") - 1
        long = np.hypot(dx, dy) > 0
        return cls(edge[long], x[first][long], y[first][long], dx[long], dy[long])


def by_definition(east: float, north: float, course: float, parts: Parts, fit: Roads) -> int:
    """The match as it is defined: all parts of all edges are looked at, and the best of each edge counts."""
    length = np.hypot(parts.dx, parts.dy)
    along = np.clip(((east - parts.x) * parts.dx + (north - parts.y) * parts.dy) / length**2, 0.0, 1.0)
    off = np.hypot(parts.x + along * parts.dx - east, parts.y + along * parts.dy - north)
    cosine = (sin(radians(course)) * parts.dx + cos(radians(course)) * parts.dy) / length
    cost = (off / fit.match_sigma_m) ** 2 + 2 * (1 - cosine) / radians(fit.match_sigma_deg) ** 2
    fits = (off <= fit.match_radius_m) & (cosine >= cos(radians(fit.match_angle_deg)))
    costs: dict[int, float] = {}
    for edge, value in zip(parts.edge[fits].tolist(), cost[fits].tolist(), strict=True):
        costs[edge] = min(costs.get(edge, inf), value)
    if not costs:
        return NO_EDGE
    (best, edge), *others = sorted((value, edge) for edge, value in costs.items())
    clear = not others or others[0][0] - best >= fit.match_margin
    return edge if clear else NOT_CLEAR


def test_the_raster_and_the_arrays_find_what_the_definition_says() -> None:
    town = city(3, 48.0, 11.0)
    net = network_of(1, [(e, c, v, m, [[x, y] for y, x in p]) for e, c, v, m, p in town.edges()])
    index, rng = index_of(net, Roads()), random.Random(4)
    scale = cos(radians(float(net.lat_deg.mean())))
    near = [rng.randrange(len(net.lat_deg)) for _ in range(60)]
    lat = np.array([net.lat_deg[k] + rng.uniform(-45, 45) * M for k in near])
    lon = np.array([net.lon_deg[k] + rng.uniform(-45, 45) * M / scale for k in near])
    course = np.array([rng.uniform(0, 360) for _ in near])
    fast = match(index, lat, lon, course, np.ones(60, np.bool_)).tolist()
    parts, places = Parts.of(net), zip(lon, lat, course, strict=True)
    defined = [by_definition(x * scale / M, y / M, c, parts, Roads()) for x, y, c in places]
    differing = sum(a != b for a, b in zip(fast, defined, strict=True))
    assert len({*fast}) > 20
    assert differing <= 1  # 32-bit metres: a tie within centimetres may fall either way


def samples_by_edge(told: dict[str, Any], index: RoadIndex | None) -> dict[int, int]:
    """What a frame at 36 km/h gives: samples by edge, or by what there is in the place of one."""
    numbers = {"partition": 0, "log_offset": 0, "received_ms": told["t0_ms"] + 1500}
    columns = {name: pa.array([number], pa.int64()) for name, number in numbers.items()}
    columns["value"] = pa.array([orjson.dumps(told)], pa.binary())
    batch = frame_batch(pa.RecordBatch.from_pydict(columns), ClockLimits(0, 10_000, 30_000))
    assert batch is not None
    assert batch.ok.all()
    _, edges = road_rows(batch, 60_000, index)
    sums: dict[int, int] = {}
    for row in pa.table(dict(edges)).to_pylist():
        assert row["place"] >> 32 == 5
        edge = (row["place"] & (2**32 - 1)) - 2
        sums[edge] = sums.get(edge, 0) + row["samples"]
        assert row["speed_over_time_sum"] == 3600 * row["time_ms_sum"]
    return sums


def test_frames_give_rows_by_edge_that_add_up_to_their_samples(tmp_path: Path) -> None:
    save(TOWN, tmp_path / "roads.npz")
    assert load(tmp_path / "roads.npz").edge_id.tolist() == TOWN.edge_id.tolist()
    along = [(50 + 100 * k) * M for k in range(10)]
    told = frame(
        1, 0, 1_767_225_600_000, speed_kmh=36.0, ignition_on=True, lat_deg=2 * M, lon_deg=along,
        heading_deg=[90.0] * 7 + [0.0, None, 90.0],
    )  # fmt: skip
    lookup = RoadLookup(tmp_path, Roads())
    assert samples_by_edge(told, lookup.index()) == {10: 8, NO_EDGE: 1, NOT_CLEAR: 1}


def test_a_network_may_be_a_single_edge() -> None:
    told = frame(
        1, 0, 1_767_225_600_000, n=4, speed_kmh=36.0, ignition_on=True, lat_deg=2 * M,
        lon_deg=[50 * M, 150 * M, 250 * M, 350 * M], heading_deg=[90.0, 0.0, None, 90.0],
    )  # fmt: skip
    one_way = network_of(5, street(10, (0, 0), (1000, 0))[:1])
    assert samples_by_edge(told, index_of(one_way, Roads())) == {10: 2, NO_EDGE: 1, NOT_CLEAR: 1}


# Arrival times ------------------------------------------------------------------------------------

NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)


def speeds(
    usual: dict[int, float], seen: dict[int, tuple[float, int]] | None = None, age_s: float = 0.0
) -> EdgeSpeeds:
    table = np.full((HOURS_A_WEEK, len(TOWN.edge_id)), np.nan)
    table[12] = [usual.get(int(e), np.nan) for e in TOWN.edge_id]
    at = {int(np.flatnonzero(TOWN.edge_id == e)[0]): s for e, s in (seen or {}).items()}
    terms = Roads(eta_few=3.0, eta_half_life_s=600.0, eta_limit_share=0.5)
    return EdgeSpeeds(TOWN, NOON, ZoneInfo("UTC"), with_fallback(TOWN, table, 0.5), at, age_s, terms)


def way_of(known: EdgeSpeeds, course: float = 90.0) -> tuple[list[int], float, float]:
    """From the middle of the south street to the middle of the east street."""
    [start] = nearest(TOWN, 0.0, 500 * M, course)
    way = quickest(TOWN, edges_after(TOWN), start, nearest(TOWN, 250 * M, 1000 * M), known.time_s)
    assert way is not None
    return TOWN.edge_id[list(way.edges)].tolist(), way.time_s, way.length_m


def test_a_way_takes_what_its_edges_take_in_part_and_whole() -> None:
    known = speeds({10: 36.0, 20: 18.0})
    edges, time_s, length_m = way_of(known)
    assert edges == [10, 20]
    assert time_s == pytest.approx(500 / 10 + 250 / 5)
    assert length_m == pytest.approx(750.0)


def test_the_other_way_round_is_taken_where_it_is_quicker_but_nobody_turns_on_the_spot() -> None:
    known = speeds({10: 36.0, 20: 0.1, 11: 36.0, 30: 36.0, 40: 36.0, 21: 36.0})
    edges, time_s, _ = way_of(known, course=270.0)
    assert edges == [11, 30, 40, 21]
    assert time_s == pytest.approx((500 + 500 + 1000 + 250) / 10)


def test_what_is_seen_fades_into_what_is_usual() -> None:
    known = speeds({10: 36.0}, {10: (9.0, 3)}, age_s=600.0)
    edge = int(np.flatnonzero(TOWN.edge_id == 10)[0])
    assert known.time_s(edge, 0.0) == pytest.approx(0.25 * 400 + 0.75 * 100)
    assert known.time_s(edge, 600.0) == pytest.approx(0.125 * 400 + 0.875 * 100)
    other = int(np.flatnonzero(TOWN.edge_id == 40)[0])
    assert speeds({}).time_s(other, 0.0) == pytest.approx(1000 / 5)
    assert known.time_s(other, 0.0) == pytest.approx(1000 / 10)


class Told:
    """A database with one network, of equal streets, and one vehicle where it was seen last."""

    def __init__(self, course: float | None) -> None:
        streets = [*street(10, (0, 0), (1000, 0)), *street(20, (1000, 0), (1000, 500))]
        self.rows = {"in_use": [(5, "town", NOON)], "edges": streets, "usual": [], "seen": []}
        self.rows["position"] = [(NOON, 0.0, 500 * M, course)]

    def execute(self, statement: str, _values: Any) -> Any:
        [rows] = [rows for name, rows in self.rows.items() if SQL[name] == statement]
        return SimpleNamespace(fetchall=lambda: rows)


@pytest.mark.parametrize(("to", "straight"), [((0.0, 900 * M), 90.0), ((0.0, 100 * M), 270.0)])
def test_a_vehicle_of_which_no_course_is_known_may_drive_either_way(
    to: tuple[float, float], straight: float
) -> None:
    def length_m(course: float | None) -> float:
        connection: Any = Told(course)
        return Forecast(connection, Settings()).predict(connection, vin(1), to).way.length_m

    assert length_m(straight) == pytest.approx(400.0)
    assert length_m((straight + 180) % 360) > 1000.0
    assert length_m(None) == pytest.approx(400.0)


def test_hours_of_the_week_are_local_and_off_peak_ends_where_it_says() -> None:
    assert hour_of_week(datetime(2026, 1, 4, 23, 30, tzinfo=UTC), ZoneInfo("Europe/Berlin")) == 0
    hours = off_peak_hours("9-16,19-22", "6-22")
    assert (hours[:10], len(hours)) == ([9, 10, 11, 12, 13, 14, 15, 19, 20, 21], 5 * 10 + 2 * 16)
    for spans in ("16-9", "9-16,19-25", "9-16,", "nine"):
        with pytest.raises(ValidationError, match="hours such as 9-16 are wanted, up to 24"):
            Roads(off_peak_weekday=spans)


class Away:
    """A database whose first ``failures`` computations of free flow fail."""

    def __init__(self, failures: int) -> None:
        self.failures, self.computed = failures, 0

    def run(self, work: Any) -> Any:
        return work(self)

    def execute(self, statement: str, _values: Any) -> Any:
        if "percentile_cont" in statement:
            if self.failures:
                self.failures -= 1
                raise ServiceError("away")
            self.computed += 1
        return SimpleNamespace(rowcount=0, fetchall=list)


def test_a_free_flow_that_could_not_be_computed_is_due_until_it_is() -> None:
    database: Any = Away(failures=2)
    task = RoadHistory(Settings(), database)
    for _ in range(2):
        with pytest.raises(ServiceError):
            task()
    task()
    task()
    assert database.computed == 2  # of cells and edges, once
