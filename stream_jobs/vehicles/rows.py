"""What the query finds, as rows of its tables and alerts; times in ms since 1970."""

import cmath
import hashlib
import math
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

import h3
import msgspec
import pyarrow as pa

from infra.settings.sections import Journeys
from stream_jobs.alerts.derive import AlertRow
from stream_jobs.app.statements import Table, column_of
from stream_jobs.rules.detect.base import Detection, number
from stream_jobs.rules.model import Rule
from stream_jobs.vehicles.features import KINDS, POWERTRAINS

if TYPE_CHECKING:
    from stream_jobs.rules.cohort.judge import Metric

OPEN, PROVISIONAL, FINAL = "open", "provisional", "final"  # under way; nothing more came; over
MS_PER_S: Final = 1000
HARSH: Final = tuple(f"harsh_{kind}" for kind in KINDS)
OD_RESOLUTION: Final = 7  # hexagons of 5.2 km2: origins and destinations


class LateVehicleFrames(msgspec.Struct, frozen=True, tag="behind", gc=False):
    """Frames that came too late for the order: what the batch layer has to look at again."""

    vehicle_id: str
    from_ms: int
    to_ms: int
    received_ms: int
    frames: int


class TripRow(msgspec.Struct, frozen=True, tag="trip", gc=False):
    """A row of odograph.trip; ``duration_s`` is from begin to end, ``standing_s`` the part without moving."""

    vehicle_id: str
    started_ms: int
    ended_ms: int
    trip_id: str
    phase: str
    start_lat_deg: float | None
    start_lon_deg: float | None
    end_lat_deg: float | None
    end_lon_deg: float | None
    start_h3_r7: str | None
    end_h3_r7: str | None
    distance_m: float
    unseen_m: float
    known_m: float
    odometer_m: float | None
    duration_s: float
    moving_s: float
    standing_s: float
    idle_s: float
    halts: int
    speed_mean_kmh: float | None
    speed_moving_kmh: float | None
    speed_max_kmh: float | None
    speeding_s: float | None
    fuel_l: float | None
    fuel_l_per_100km: float | None
    energy_kwh: float | None
    energy_kwh_per_100km: float | None
    co2_g: float | None
    harsh_brake: int
    harsh_accelerate: int
    harsh_corner: int
    frames: int


class StopRow(msgspec.Struct, frozen=True, tag="stop", gc=False):
    """A row of odograph.trip_stop: the time between two trips; ``ended_ms`` None while it lasts."""

    vehicle_id: str
    began_ms: int
    ended_ms: int | None
    lat_deg: float | None
    lon_deg: float | None
    h3_r7: str | None


class IdleRow(msgspec.Struct, frozen=True, tag="idle", gc=False):
    """A row of odograph.idle_episode: standing with the ignition on."""

    vehicle_id: str
    began_ms: int
    ended_ms: int
    phase: str
    duration_s: float
    fuel_l: float | None
    energy_kwh: float | None
    lat_deg: float | None
    lon_deg: float | None


class HarshRow(msgspec.Struct, frozen=True, tag="harsh", gc=False):
    """Of odograph.harsh_event; ``speed_kmh`` at its begin, ``grade`` 1 to 3 by ``peak_g`` / ``limit_g``."""

    vehicle_id: str
    began_ms: int
    ended_ms: int
    kind: str
    grade: int
    peak_g: float
    limit_g: float
    speed_kmh: float
    lat_deg: float | None
    lon_deg: float | None


Row = AlertRow | LateVehicleFrames | TripRow | StopRow | IdleRow | HarshRow
pack: Final[Callable[[Row], bytes]] = msgspec.json.encode
"""A row as JSON, its kind under ``type``."""
unpack: Final[Callable[[bytes], Row]] = msgspec.json.Decoder(Row).decode
"""The row that ``pack`` made a body of."""

TOTALS: Final = (
    "frames", "distance_m", "unseen_m", "known_m", "moving_ms", "idle_ms", "speeding_ms", "speed_max_kmh",
    "fuel_l", "energy_kwh", "halts", *HARSH, "odometer_from_m", "odometer_to_m", "powertrain",
)  # fmt: skip
"""Sums over the frames of a trip. ``unseen_m`` is the part of ``distance_m`` that no frame saw, ``known_m``
the one with the place known; ``powertrain``: its place in POWERTRAINS.
"""
TOLD: Final = frozenset(
    ("speeding_ms", "speed_max_kmh", "fuel_l", "energy_kwh", "odometer_from_m", "odometer_to_m", "powertrain")
)
"""Those that are NaN until a frame tells them; the others begin at 0."""


def degrees(position: complex) -> tuple[float | None, float | None]:
    """Latitude and longitude."""
    return (None, None) if cmath.isnan(position) else (float(position.real), float(position.imag))


def _place(position: complex, prefix: str = "") -> dict[str, Any]:
    lat, lon = degrees(position)
    cell = None if lat is None or lon is None else h3.latlng_to_cell(lat, lon, OD_RESOLUTION)
    return {f"{prefix}lat_deg": lat, f"{prefix}lon_deg": lon, f"{prefix}h3_r7": cell}


def stop_row(vehicle_id: str, began_ms: float, ended_ms: int | None, where: complex) -> StopRow:
    """The row of a stop."""
    return StopRow(vehicle_id, int(began_ms), ended_ms, **_place(where))


def trip_row(
    vehicle_id: str, phase: str, start: tuple[float, complex], end: tuple[float, complex],
    t: Mapping[str, float], limits: Journeys,
) -> TripRow:  # fmt: skip
    """The row of a trip between two moments, each with its place; ``t``: TOTALS by name."""
    started_ms, ended_ms = int(start[0]), int(end[0])
    duration_s, moving_s = max(0, ended_ms - started_ms) / MS_PER_S, t["moving_ms"] / MS_PER_S
    distance_m, unseen_m = t["distance_m"], t["unseen_m"]
    harsh: dict[str, Any] = {name: int(t[name]) for name in HARSH}

    def kmh(distance_m: float, time_s: float) -> float | None:
        return round(distance_m / time_s * 3.6, 2) if time_s > 0 else None

    def per_100_km(amount: float) -> float | None:
        is_enough = distance_m >= limits.consumption_from_m
        return number(round(amount / distance_m * 100_000, 3)) if is_enough else None

    trip_id = hashlib.sha256(f"{vehicle_id}|{started_ms}".encode()).hexdigest()[:16]
    return TripRow(
        vehicle_id=vehicle_id, started_ms=started_ms, ended_ms=ended_ms, trip_id=trip_id, phase=phase,
        **_place(start[1], "start_"), **_place(end[1], "end_"),
        distance_m=round(distance_m, 1), unseen_m=round(unseen_m, 1), known_m=round(t["known_m"], 1),
        odometer_m=number(t["odometer_to_m"] - t["odometer_from_m"]),
        duration_s=duration_s, moving_s=moving_s, standing_s=max(0.0, round(duration_s - moving_s, 3)),
        idle_s=t["idle_ms"] / MS_PER_S, halts=int(t["halts"]), speed_mean_kmh=kmh(distance_m, duration_s),
        speed_moving_kmh=kmh(distance_m - unseen_m, moving_s), speed_max_kmh=number(t["speed_max_kmh"]),
        speeding_s=number(t["speeding_ms"] / MS_PER_S),
        fuel_l=number(round(t["fuel_l"], 4)), fuel_l_per_100km=per_100_km(t["fuel_l"]),
        energy_kwh=number(round(t["energy_kwh"], 4)), energy_kwh_per_100km=per_100_km(t["energy_kwh"]),
        co2_g=_co2_g(t["powertrain"], t["fuel_l"], limits), frames=int(t["frames"]), **harsh,
    )  # fmt: skip


def _co2_g(powertrain: float, fuel_l: float, limits: Journeys) -> float | None:
    """Out of the exhaust: nothing of an electric vehicle, not known of an unknown powertrain."""
    if math.isnan(powertrain):
        return None
    kind = POWERTRAINS[int(powertrain)]
    if kind == "electric":
        return 0.0
    petrol, diesel = limits.co2_g_per_l
    return number(round(fuel_l * (diesel if kind == "diesel" else petrol), 1))


def finding_id(vehicle_id: str, rule: str, version: int, event_ms: int, *, ended: bool) -> str:
    """The id of a finding: the same one however often it is found."""
    same = (vehicle_id, rule, version, event_ms, "ended" if ended else "found")
    return hashlib.sha256("|".join(map(str, same)).encode()).hexdigest()[:32]


def alert_row(
    rule: "Rule | Metric", found: Detection, vehicle_id: str, boot_id: int, seq: int, received_ms: int,
    lat_deg: float | None = None, lon_deg: float | None = None,
) -> AlertRow:  # fmt: skip
    """The record of a finding, with its frame; ``received_ms``: that one's receipt, or when a timer was due.

    Its id follows from what makes a finding the same one, vehicle, rule, version and event time, and not from
    the frame that brought it: found again, it is no news.
    """
    name = rule.id if found.part is None else f"{rule.id}.{found.part}"
    return AlertRow(
        alert_id=finding_id(vehicle_id, name, rule.version, found.event_ms, ended=found.ended),
        rule=name, rule_version=rule.version, severity=found.severity or rule.severity,
        message=f"{rule.message}: {found.detail}" if found.detail else rule.message,
        event_ms=found.event_ms, since_ms=found.since_ms, ended=found.ended, value=found.value,
        limit=found.limit,
        vehicle_id=vehicle_id, boot_id=boot_id, seq=seq, received_ms=received_ms, lat_deg=lat_deg,
        lon_deg=lon_deg,
    )  # fmt: skip


def _journeys(name: str, *keys: str) -> Table:
    return Table(name, ("vehicle_id", *keys), keys[0], "reopen_journeys")


TABLES: Final[Mapping[type, Table]] = {
    TripRow: _journeys("odograph.trip", "started_at"),
    StopRow: _journeys("odograph.trip_stop", "began_at"),
    IdleRow: _journeys("odograph.idle_episode", "began_at"),
    HarshRow: _journeys("odograph.harsh_event", "began_at", "kind"),
    LateVehicleFrames: Table(
        "odograph.late_vehicle_frames", ("vehicle_id", "from_time", "received_at"), "from_time"
    ),
}
RESTATED: Final = tuple(kind for kind, table in TABLES.items() if table.reopen)  # by the batch layer


def tables_of(rows: Iterable[Row], always: Iterable[type] = ()) -> dict[Table, pa.Table]:
    """Rows by table, those of kinds ``always`` without a row too; of rows of one key the last stands."""
    found: dict[type, dict[tuple[Any, ...], dict[str, Any]]] = {kind: {} for kind in always}
    for row in rows:
        table = TABLES.get(type(row))
        if table is not None:
            named = {column_of(name): getattr(row, name) for name in row.__struct_fields__}
            found.setdefault(type(row), {})[tuple(named[key] for key in table.keys)] = named
    return {TABLES[k]: pa.Table.from_pylist(list(each.values()), _schema(k)) for k, each in found.items()}


def _schema(kind: type) -> pa.Schema:
    columns = {}
    for each in msgspec.structs.fields(kind):
        text = str(each.type)
        if each.name.endswith("_ms"):
            columns[column_of(each.name)] = pa.timestamp("ms", tz="UTC")
        elif "str" in text:
            columns[each.name] = pa.string()
        else:
            columns[each.name] = pa.float64() if "float" in text else pa.int64()
    return pa.schema(columns)
