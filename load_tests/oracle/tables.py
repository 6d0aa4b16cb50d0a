"""The windows as they must be: records as the log holds them, in its order, as (received_ms, payload bytes).

Out come rows of odograph.vehicle_window, odograph.road_cell_window and, where a road network is known,
odograph.road_edge_window as dicts by key, without the writer's columns. Values are whole steps until the one
division at the end, so they compare with ``==``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from load_tests.oracle.edges import Roads, edge_of
from load_tests.oracle.road import cell_of, road_row
from load_tests.oracle.samples import Limits, Row, Sample, read, samples, time_of, verdict
from load_tests.oracle.vehicle import vehicle_row

USUAL = Limits()


@dataclass(slots=True)
class Expected:
    """What must be in the database."""

    vehicle: dict[tuple[str, datetime], Row] = field(default_factory=dict)
    road: dict[tuple[str, int, datetime], Row] = field(default_factory=dict)
    edge: dict[tuple[int, int, datetime], Row] = field(default_factory=dict)
    verdicts: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    duplicates: int = 0


def expect(
    records: Iterable[tuple[int, bytes]], limits: Limits = USUAL, repaired: bool = True,
    roads: Roads | None = None,
) -> Expected:  # fmt: skip
    """All tables; ``repaired`` says whether the batch layer has added the late frames already.

    ``roads``: the network in use; without it there are no rows of edges.
    """
    expected = Expected()
    frames = [each for each in counted(expected, records, limits) if repaired or each[1] != "late"]
    _windows(expected, frames, limits, roads)
    return expected


def counted(
    expected: Expected, records: Iterable[tuple[int, bytes]], limits: Limits
) -> list[tuple[Row, str]]:
    """The frames that go into windows, each identity once, with ok or late; copies and verdicts are noted."""
    chosen: dict[tuple[str, int, int], tuple[Row, str]] = {}
    for received_ms, payload in records:
        frame = read(payload)
        word = verdict(frame, received_ms, limits)
        expected.verdicts[word] += 1
        if frame is None or word not in ("ok", "late"):
            continue
        identity = (frame["vehicle_id"], frame["boot_id"], frame["seq"])
        before = chosen.get(identity)
        expected.duplicates += word == "ok" and before is not None and before[1] == "ok"
        if before is None or (word == "ok" and before[1] == "late"):
            chosen[identity] = (frame, word)
    return [*chosen.values()]


def _windows(
    expected: Expected, frames: Iterable[tuple[Row, str]], limits: Limits, roads: Roads | None
) -> None:
    by_vehicle: dict[tuple[str, int], list[Sample]] = defaultdict(list)
    by_cell: dict[tuple[str, int, int], list[tuple[str, Sample]]] = defaultdict(list)
    by_edge: dict[tuple[int, int, int], list[tuple[str, Sample]]] = defaultdict(list)
    for frame, word in frames:
        for sample in samples(frame, word == "late"):
            start = sample.event_ms // limits.window_ms * limits.window_ms
            by_vehicle[frame["vehicle_id"], start].append(sample)
            road_start = sample.event_ms // limits.road_window_ms * limits.road_window_ms
            place = cell_of(sample)
            if place is not None:
                by_cell[*place, road_start].append((frame["vehicle_id"], sample))
            edge = None if roads is None else edge_of(sample, roads)
            if roads is not None and edge is not None:
                by_edge[roads.number, edge, road_start].append((frame["vehicle_id"], sample))
    for (vehicle_id, start), found in by_vehicle.items():
        expected.vehicle[vehicle_id, time_of(start)] = vehicle_row(found, limits)
    for (cell, sector, start), members in by_cell.items():
        expected.road[cell, sector, time_of(start)] = road_row(members, limits)
    for (number, edge, start), members in by_edge.items():
        expected.edge[number, edge, time_of(start)] = road_row(members, limits)
