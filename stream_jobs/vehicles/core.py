"""Everything that follows from the frames of vehicles that come one after the other; pure.

The stream and the batch layer both go through here: ``Core.take`` for frames as they come, ``Core.replay``
for frames that are all there.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final

import msgspec
import numpy as np

from infra.settings.sections import Jobs, Journeys
from stream_jobs.frames.arrays import Flags, Floats, Ints, run_begins
from stream_jobs.rules.detect.base import Detection, Detections, number
from stream_jobs.rules.detect.occurrence import CloneDetector, SilenceDetector
from stream_jobs.rules.model import Rule
from stream_jobs.rules.rule_set import RuleSet
from stream_jobs.vehicles.features import Features, joined
from stream_jobs.vehicles.fleet import Fleet
from stream_jobs.vehicles.journeys import journey
from stream_jobs.vehicles.rows import LateVehicleFrames, Row, alert_row
from stream_jobs.vehicles.sequencer import NO_BOOT, Arrival

HOUR_MS: Final = 3_600_000
Released = tuple[Ints, Ints, Ints]
"""Frames that go on, [m] each: the vehicle's place, which frame, how many of the vehicle go before it."""


class Core:
    """The pure core for vehicles of one query; it remembers nothing itself."""

    def __init__(self, jobs: Jobs, journeys: Journeys, rule_set: RuleSet) -> None:
        self._jobs, self._journeys, self._rule_set = jobs, journeys, rule_set
        self._ttl_ms = HOUR_MS * jobs.state_ttl_h  # by the receive clock
        each = [*enumerate(rule_set)]
        self._unordered = [(k, detector) for k, detector in each if isinstance(detector, CloneDetector)]
        self._timed = [(k, detector) for k, detector in each if isinstance(detector, SilenceDetector)]

    def take(self, fleet: Fleet, features: Features) -> list[Row]:
        """Rows that follow from frames as they came, in the order of the log."""
        places = fleet.places(features.ids)[features.vehicle]
        np.maximum.at(fleet.vehicles["clock"], places, features["received_ms"])
        rows = self._arrived(fleet, places, features)
        frames = features if fleet.held is None else joined([fleet.held, features])
        released, behind = self._in_order(fleet, places, frames, len(frames) - len(features))
        rows += self._rounds(fleet, frames, released)
        for place, late in behind.items():
            from_ms, to_ms = frames["t0_ms"][late].min(), frames["end_ms"][late].max()
            span = int(from_ms), int(to_ms), int(frames["received_ms"][late].max())
            rows.append(LateVehicleFrames(fleet.ids[place], *span, len(late)))
        hold(fleet, frames)
        self._note_due(fleet, np.unique(places))
        return rows

    def expire(self, fleet: Fleet, now_ms: int) -> list[Row]:
        """Rows that follow from nothing having come of vehicles up to ``now_ms`` of the receive clock.

        Those that were silent for so long that their memory may go are forgotten; what only that would end,
        ends then.
        """
        rows: list[Row] = []
        places = np.flatnonzero(fleet.vehicles["due"] < now_ms)
        if not places.size:
            return rows
        given_up = []
        for place in fleet.waiting.keys() & set(places.tolist()):
            order = fleet.order(place)
            given_up.append((place, [*order.expire(now_ms, self._jobs)]))
            fleet.put_order(place, order)
        if fleet.held is not None and any(each for _, each in given_up):
            rows += self._rounds(fleet, fleet.held, _released(given_up))
            hold(fleet, fleet.held)
        rows += self._wake(fleet, places, np.full(len(places), float(now_ms)))
        self._note_due(fleet, places)
        gone = places[fleet.vehicles["clock"][places] + self._ttl_ms <= now_ms]
        rows += self._end_all(fleet, gone)
        fleet.forget(gone)
        return rows

    def replay(self, features: Features, until_ms: int) -> list[Row]:
        """Rows out of frames that are all there, in whatever order they are given.

        All frames of a vehicle are put in order at once, whatever came when: that is what the stream's order
        comes to where nothing is behind. ``until_ms``: the receive clock up to which nothing more came.
        """
        fleet = Fleet(self._rule_set)
        features = features.take(np.argsort(features["received_ms"], kind="stable"))
        places = fleet.places(features.ids)[features.vehicle]
        rows = self._arrived(fleet, places, features)
        chosen = _sorted_frames(places, features)
        np.maximum.at(fleet.vehicles["clock"], places[chosen], features["received_ms"][chosen])
        rows += self._rounds(fleet, features, (places[chosen], chosen, _ranks(places[chosen])))
        self._note_due(fleet, np.unique(places))
        return rows + self.expire(fleet, until_ms)

    def behind(self, features: Features) -> set[str]:
        """Vehicles of which the order alone, which costs little, leaves frames behind."""
        fleet = Fleet(())
        places = fleet.places(features.ids)[features.vehicle]
        return {fleet.ids[place] for place in self._in_order(fleet, places, features, 0)[1]}

    def _arrived(self, fleet: Fleet, places: Ints, features: Features) -> list[Row]:
        """Rows of detectors that look at frames as they arrive, whatever their order; copies are harmless."""
        rows: list[Row] = []
        for k, detector in self._unordered:
            believed = np.flatnonzero(features["believed"] > 0)
            frames = Features(fleet.ids, places[believed], features.frame_features[believed], ())
            rows += self._alerts(k, detector.arrived(fleet.detectors[k], frames), frames)
        return rows

    def _in_order(
        self, fleet: Fleet, places: Ints, frames: Features, begin: int
    ) -> tuple[Released, dict[int, list[int]]]:
        """Frames from row ``begin`` on, which are those of ``places``: what goes on, and what came too late.

        Most vehicles' frames are the next ones of their boot: those are known by arithmetic, the others go
        one by one through the vehicle's Order.
        """
        order = np.argsort(places, kind="stable")
        place, rows = places[order], order + begin
        names = ("boot_id", "seq", "t0_ms", "received_ms")
        boot, seq, t0, received = (frames[name][rows].astype(np.int64) for name in names)
        believed = frames["believed"][rows] > 0
        rank, vehicles = _ranks(place), fleet.vehicles
        holding = np.zeros(len(vehicles), np.bool_)
        holding[[p for p, each in fleet.waiting.items() if each.held]] = True
        free = believed & ~holding[place]
        # Of a vehicle never seen the first frame waits for none where its boot begins, or did so long ago.
        waits_for_none = (seq == 0) | (seq > self._jobs.reorder_buffer_frames)
        new = waits_for_none & (rank == 0) & free & (vehicles["boot"][place] == NO_BOOT)
        for name, column in (("boot", boot), ("next", seq), ("boot_from", t0)):
            vehicles[name][place[new]] = column[new]
        plain = free & (boot == vehicles["boot"][place]) & (seq == vehicles["next"][place] + rank)
        odd = np.zeros(len(vehicles), np.bool_)
        odd[place[~plain]] = True
        is_odd = odd[place]
        vehicles["next"][place[~is_odd]] = seq[~is_odd] + 1  # of a place's frames the last one stands
        vehicles["filled"][place[~is_odd]] = received[~is_odd]
        came: dict[int, list[Arrival]] = {}
        of_odd = (each[is_odd].tolist() for each in (place, boot, seq, t0, received, rows, believed))
        for p, b, s, t, at, row, is_believed in zip(*of_odd, strict=True):
            came.setdefault(p, []).append(Arrival(b, s, t, at, row if is_believed else None))
        sequenced, behind = [], {}
        for p, arrivals in came.items():
            own, late = fleet.order(p), list[int]()
            sequenced.append((p, [row for each in arrivals for row in own.take(each, self._jobs, late)]))
            fleet.put_order(p, own)
            if late:
                behind[p] = late
        at_once, one_by_one = (place[~is_odd], rows[~is_odd], rank[~is_odd]), _released(sequenced)
        place, rows, rank = map(np.concatenate, zip(at_once, one_by_one, strict=True))
        return (place, rows, rank), behind

    def _rounds(self, fleet: Fleet, frames: Features, released: Released) -> list[Row]:
        out: list[Row] = []
        rules = frames.rules
        assert rules is not None
        awake, wakes = list[int](), list[tuple[Flags, Flags]]()
        for k, detector in enumerate(self._rule_set):
            relevant, starts = detector.wakes(rules.of(k))
            if starts.any() or (relevant.any() and fleet.detectors[k].on.any()):
                awake.append(k)  # others find or remember nothing of these frames
                wakes.append((relevant, starts))
        relevant, starts = np.array(wakes, np.bool_).reshape(-1, 2, len(frames)).swapaxes(0, 1)
        all_places, all_rows, rank = released
        order = np.argsort(rank, kind="stable")
        for begin, end in pairwise([0, *np.cumsum(np.bincount(rank)).tolist()]):
            places, rows = all_places[order[begin:end]], all_rows[order[begin:end]]
            runs = [frames.runs[row] for row in rows.tolist()]
            now = Features(fleet.ids, places, frames.frame_features[rows], runs)
            out += self._wake(fleet, places, now["received_ms"])
            out += journey.step(fleet.journeys, now, self._journeys)
            known = np.array([fleet.detectors[k].on[places] for k in awake])
            asked = starts[:, rows] | (relevant[:, rows] & known) if awake else ()
            for k, wanted in zip(awake, asked, strict=True):
                lanes = wanted.nonzero()[0]
                if lanes.size:
                    chosen, said = now.at(lanes), rules.of(k, rows[lanes])
                    found = self._rule_set[k].step(fleet.detectors[k], chosen, said)
                    out += self._alerts(k, found, chosen)
            last = fleet.vehicles[places]
            last["seen"], last["lat"], last["lon"] = True, now["lat_deg"], now["lon_deg"]
            last["last_boot"], last["last_seq"] = now["boot_id"], now["seq"]
            fleet.vehicles[places] = last
        return out

    def _wake(self, fleet: Fleet, places: Ints, now_ms: Floats) -> Iterator[Row]:
        """Ask those whose moment came before ``now_ms`` [k], each at its moment."""
        seen = fleet.vehicles["seen"][places]
        places, now_ms = places[seen], now_ms[seen]
        yield from journey.expire(fleet.journeys, places, now_ms, fleet.ids, self._journeys)
        for k, detector in self._timed:
            due_ms = detector.due_ms(fleet.detectors[k], places)
            for lane, found in detector.expire(fleet.detectors[k], places, now_ms):
                yield _timed_alert(fleet, int(places[lane]), detector.rule, found, int(due_ms[lane]))

    def _end_all(self, fleet: Fleet, gone: Ints) -> Iterator[Row]:
        """Ends of alerts that only their detector ends, which is about to forget these vehicles."""
        why = f"nothing came for {self._jobs.state_ttl_h} h, it is watched no longer"
        for place in gone.tolist():
            at_ms = int(fleet.vehicles["clock"][place]) + self._ttl_ms
            for detector, memory in zip(self._rule_set, fleet.detectors, strict=True):
                for since_ms, part in detector.unended(memory, place):
                    over = Detection(at_ms, since_ms, None, None, detail=why, part=part, ended=True)
                    yield _timed_alert(fleet, place, detector.rule, over, at_ms)

    def _note_due(self, fleet: Fleet, places: Ints) -> None:
        """When ``expire`` is to be called unless frames come before."""
        due_ms = journey.due_ms(fleet.journeys, places, self._journeys)
        for k, detector in self._timed:
            due_ms = np.minimum(due_ms, detector.due_ms(fleet.detectors[k], places))
        for lane, place in enumerate(places.tolist()):
            if place in fleet.waiting:
                due_ms[lane] = min(due_ms[lane], fleet.order(place).due_ms(self._jobs))
        forget_ms = fleet.vehicles["clock"][places] + self._ttl_ms
        fleet.vehicles["due"][places] = np.where(np.isinf(due_ms), forget_ms, due_ms)

    def _alerts(self, k: int, found: Detections, frames: Features) -> Iterator[Row]:
        for lane, each in found:
            boot_id, seq, received_ms = (int(frames[n][lane]) for n in ("boot_id", "seq", "received_ms"))
            where = number(frames["lat_deg"][lane]), number(frames["lon_deg"][lane])
            head = frames.id_of(lane), boot_id, seq, received_ms
            yield alert_row(self._rule_set[k].rule, each, *head, *where)


def _timed_alert(fleet: Fleet, place: int, rule: Rule, found: Detection, at_ms: int) -> Row:
    """What was found at ``at_ms`` of the receive clock, with the vehicle's last frame."""
    last = fleet.vehicles[place]
    boot_id, seq = int(last["last_boot"]), int(last["last_seq"])
    where = number(last["lat"]), number(last["lon"])
    return alert_row(rule, found, fleet.ids[place], boot_id, seq, at_ms, *where)


def _ranks(places: Ints) -> Ints:
    """How many of the same place go before each; those of a place are neighbours."""
    begins = run_begins(places)
    return np.arange(len(places)) - np.repeat(begins, np.diff(begins, append=len(places)))


def _released(found: Sequence[tuple[int, list[int]]]) -> Released:
    counts = [len(rows) for _, rows in found]
    places = np.repeat(np.array([place for place, _ in found], np.int64), counts)
    rows = np.array([row for _, each in found for row in each], np.int64)
    return places, rows, _ranks(places)


def hold(fleet: Fleet, frames: Features) -> None:
    """Keep the frames that wait, and let the others go, the ids of their vehicles too."""
    rows = [each.row for w in fleet.waiting.values() for each in w.held if each.row is not None]
    fleet.held = None
    if rows:
        found = frames.take(np.array(rows, np.int64))
        used, vehicle = np.unique(found.vehicle, return_inverse=True)
        fleet.held = replace(found, ids=[found.ids[k] for k in used.tolist()], vehicle=vehicle)
    moved: dict[int | None, int | None] = {row: k for k, row in enumerate(rows)}
    for w in fleet.waiting.values():
        w.held = [msgspec.structs.replace(each, row=moved.get(each.row)) for each in w.held]


def _sorted_frames(places: Ints, features: Features) -> Ints:
    """Rows of believed frames by vehicle, boot and number, each once: of copies the one received first.

    None of a lower boot from after a higher one's begin. ``features`` are in the order of receipt.
    """
    boot, seq = features["boot_id"], features["seq"]
    order = np.lexsort((np.arange(len(places)), seq, boot, places))
    order = order[run_begins(places[order], boot[order], seq[order])]
    order = order[features["believed"][order] > 0]
    place, t0 = places[order], features["t0_ms"][order]
    new_boot = run_begins(place, boot[order])
    if not new_boot.size:
        return order
    begins = np.minimum.reduceat(t0, new_boot)
    ends = np.full(len(begins), np.inf)
    for k in range(len(begins) - 2, -1, -1):
        if place[new_boot[k]] == place[new_boot[k + 1]]:
            ends[k] = min(ends[k + 1], begins[k + 1])
    return order[t0 < np.repeat(ends, np.diff(new_boot, append=len(order)))]
