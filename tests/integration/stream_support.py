"""A stream application in a lane, its records and its tables, for the tests of the jobs."""

from __future__ import annotations

import functools
import random
import urllib.error
import urllib.request
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

import orjson
import psycopg
from psycopg.rows import dict_row

from infra.settings.settings import ENDPOINTS_FILE
from infra.sql.queries import store_roads
from load_tests.drills.link import Link
from load_tests.oracle import Expected, Roads
from stream_jobs.roads import network
from tests.support import Lane, LaneProcess
from tests.support_frames import TOWN, Record, frame, random_frame, vin

HOUR_MS = 3_600_000
USERS_SQL = """-- Frames of each vehicle by minute.
-- over: frames
-- key: minute, vehicle_id
SELECT window.start AS minute, vehicle_id, count(*) AS frames, sum(n) AS samples
FROM frames GROUP BY window(event_time, '1 minute'), vehicle_id
"""
WRITER = ("batch_id", "revision", "restated_at")


@functools.cache
def base_ms() -> int:
    """An hour that has passed: the receive times of a test are its own, all windows are over.

    One for the whole run: what a test sends an hour before it must not be what another sent, where the
    clock struck between them.
    """
    return (int(datetime.now(UTC).timestamp() * 1000) // HOUR_MS - 3) * HOUR_MS


@dataclass(frozen=True, slots=True)
class App:
    """A running stream application and its way to the database."""

    lane: Lane
    process: LaneProcess
    link: Link


def linked(lane: Lane) -> Link:
    """A link before the database, written into the lane's addresses for programs that write."""
    url = urlsplit(lane.endpoints.db_ingest_url)
    assert url.hostname is not None
    assert url.port is not None
    link = Link(url.hostname, url.port)
    programs = {
        name: own.replace(f":{url.port}/", f":{link.port}/")
        for name, own in lane.endpoints.db_program_urls.items()
    }
    addresses = replace(lane.endpoints, db_program_urls=programs)
    (lane.home / ENDPOINTS_FILE).write_bytes(orjson.dumps(asdict(addresses)))
    return link


def ready(lane: Lane, process: LaneProcess) -> bool:
    process.assert_running()
    return page(lane, "readyz")[0] == 200


def page(lane: Lane, path: str) -> tuple[int, str]:
    """Status and body of the application's health page; 0 while nobody listens."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{lane.endpoints.http_ports['jobs']}/{path}") as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()
    except OSError:
        return 0, ""


def query(lane: Lane, sql: str, *values: Any) -> list[dict[str, Any]]:
    with psycopg.connect(lane.endpoints.db_owner_url, row_factory=dict_row) as connection:
        return connection.execute(sql, values).fetchall()  # type: ignore[arg-type]


def stored(lane: Lane, vehicles: range, since_ms: int, until_ms: int) -> Expected:
    """What the tables hold for these vehicles, and for all road cells and edges in the span of time."""
    span = [datetime.fromtimestamp(ms / 1000, UTC) for ms in (since_ms, until_ms)]
    ids = [vin(v) for v in vehicles]
    found = Expected()
    sql = "SELECT * FROM odograph.vehicle_window WHERE vehicle_id = ANY(%s)"
    for row in query(lane, sql, ids):
        key = (row.pop("vehicle_id"), row.pop("window_start"))
        found.vehicle[key] = {k: v for k, v in row.items() if k not in WRITER}
    sql = "SELECT * FROM odograph.road_cell_window WHERE window_start >= %s AND window_start < %s"
    for row in query(lane, sql, *span):
        road_key = (row.pop("cell"), row.pop("heading_sector"), row.pop("window_start"))
        found.road[road_key] = {k: v for k, v in row.items() if k not in WRITER}
    sql = "SELECT * FROM odograph.road_edge_window WHERE window_start >= %s AND window_start < %s"
    for row in query(lane, sql, *span):
        edge_key = (row.pop("network_no"), row.pop("edge_id"), row.pop("window_start"))
        found.edge[edge_key] = {k: v for k, v in row.items() if k not in WRITER}
    return found


def assert_equal(found: Expected, expected: Expected) -> None:
    """Row by row, exactly; the first difference is named."""
    for name in ("vehicle", "road", "edge"):
        have, want = getattr(found, name), getattr(expected, name)
        assert have.keys() == want.keys(), f"{name}: {sorted(have.keys() ^ want.keys())[:5]}"
        for key, row in want.items():
            differing = {c: (have[key][c], v) for c, v in row.items() if have[key][c] != v}
            assert not differing, f"{name} {key}: {differing}"


def agrees(lane: Lane, expected: Expected, vehicles: range, since_ms: int, until_ms: int) -> bool:
    """Asked again and again: what is ``expected`` is worked out once."""
    assert_equal(stored(lane, vehicles, since_ms, until_ms), expected)
    return True


def town_in_use(lane: Lane) -> None:
    """A road network, in the database and in the file that the stages read: no window goes without it."""
    store_roads(lane.endpoints.db_ingest_url, "town", TOWN)
    rows = [(edge, kind, kmh, m, [[lon, lat] for lat, lon in path]) for edge, kind, kmh, m, path in TOWN]
    place = lane.home / "lookups" / network.ROADS_FILE
    place.parent.mkdir(parents=True, exist_ok=True)
    network.save(network.network_of(number_of(lane) or 0, rows), place)


def number_of(lane: Lane) -> int | None:
    """The network's number in the database; None without one."""
    numbers = query(lane, "SELECT network_no FROM odograph.road_network")
    return numbers[0]["network_no"] if numbers else None


def roads_of(lane: Lane) -> Roads | None:
    """The network in use as the oracle has it."""
    number = number_of(lane)
    return None if number is None else Roads(number, {edge: path for edge, _, _, _, path in TOWN})


def drive(vehicles: range, start_ms: int, seconds: int, seed: int) -> list[Record]:
    """A frame a second of each vehicle, received 1 to 2 s after its first sample, in order of receipt."""
    rng = random.Random(seed)
    records = [
        (start_ms + s * 1000 + 1000 + rng.randrange(1000),
         orjson.dumps(random_frame(v, s, start_ms + s * 1000 + v * 7, rng)))
        for s in range(seconds) for v in vehicles
    ]  # fmt: skip
    return sorted(records)


def spoilt(records: list[Record], seed: int) -> list[Record]:
    """With copies, disorder within the lateness, frames too late, clocks of 1970 and 2036, and rubbish."""
    rng = random.Random(seed)
    out = []
    for received_ms, payload in records:
        fate = rng.random()
        out.append((received_ms + (rng.randrange(25_000) if fate < 0.2 else 0), payload))
        if 0.2 < fate < 0.3:
            out.append((received_ms + rng.randrange(20_000), payload))
        if 0.3 < fate < 0.33:
            out[-1] = (received_ms + 40_000 + rng.randrange(60_000), payload)
        if 0.33 < fate < 0.35:
            clock = rng.choice([0, 2_082_758_400_000])
            out.append(
                (received_ms, orjson.dumps(orjson.loads(payload) | {"t0_ms": clock, "seq": 10**6 + len(out)}))
            )
        if 0.35 < fate < 0.36:
            out.append((received_ms, payload[: len(payload) // 2]))
    return sorted(out)


def journey_record(second: int, start_ms: int, behind_ms: int = 0) -> tuple[int, bytes]:
    """100 s northwards at 36 km/h, then standing; a frame a second."""
    drives = second < 100
    t0_ms = start_ms + second * 1000
    lat_deg = 48.1 + min(second, 100) * 10 / 111_195
    content = frame(
        61, second, t0_ms, speed_kmh=36.0 if drives else 0.0, lat_deg=lat_deg, lon_deg=11.5, ignition_on=True
    )
    return t0_ms + 1500 + behind_ms, orjson.dumps(content)


Counts = dict[str, int]
SET_ASIDE = """
SELECT 'late' AS what, count(*) AS n FROM odograph.late_frame WHERE NOT deferred
UNION ALL SELECT 'repaired', count(repaired_at) FROM odograph.late_frame WHERE NOT deferred
UNION ALL SELECT verdict, count(*) FROM odograph.quarantined_frame GROUP BY 1
UNION ALL SELECT count.* FROM (
    SELECT sum(dropped_late) AS dropped, sum(dropped_duplicates) AS copies
    FROM odograph.query_progress WHERE query = 'telemetry'
) AS told, LATERAL (VALUES ('dropped_late', coalesce(dropped, 0)), ('copies', coalesce(copies, 0))) AS count
"""


def set_aside(lane: Lane) -> Counts:
    """Frames that were not simply counted, so far. Batches decide which in time are deferred; they are in no
    number here.
    """
    return {row["what"]: int(row["n"]) for row in query(lane, SET_ASIDE)}


def to_list(expected: Expected) -> Counts:
    """Of ``set_aside`` what the archive lists, by verdict."""
    return {verdict: n for verdict, n in expected.verdicts.items() if verdict != "ok"}


def lists(found: Counts, wanted: Counts) -> bool:
    """Whether all that is ``wanted`` was found: the archive lists by itself, windows may be there before."""
    return {verdict: found.get(verdict, 0) for verdict in wanted} == wanted


@dataclass(frozen=True, slots=True)
class Dirty:
    """Frames of twelve vehicles with everything that goes wrong with frames; the tables have them."""

    records: list[tuple[int, bytes]]
    since_ms: int
    expected: Expected
    counts: Counts
    """What they added to ``set_aside``."""
