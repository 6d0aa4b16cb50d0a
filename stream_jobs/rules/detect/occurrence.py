"""What comes again and again, a vehicle that stopped sending, and one whose identity two devices use."""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from stream_jobs.frames.arrays import Flags, Floats, Ints
from stream_jobs.rules.detect import base
from stream_jobs.rules.inputs import RuleEvaluation
from stream_jobs.rules.model import Clone, Count, Silence
from stream_jobs.vehicles.features import Features

NAMES_MAX: Final = 32  # names that a vehicle's memory keeps; the one seen longest ago gives way
UNNAMED: Final = ""


class Seen(NamedTuple):
    """A name: last there, last found (None: never), whether it was away since, its last beginnings."""

    name: str
    last_ms: int
    found_ms: int | None
    away: bool
    begun_ms: tuple[int, ...]


def _counted(
    detector: base.Detector[Count], begun_ms: Sequence[int], at_ms: int, name: str = UNNAMED
) -> base.Detection | None:
    """What the last beginnings of a name (at most ``times``) make, if they lie within ``span_s``."""
    times = detector.spec.times
    if len(begun_ms) < times or begun_ms[-1] - begun_ms[0] > base.ms(detector.spec.span_s):
        return None
    own = name if detector.rule.apart and name else None
    return base.Detection(at_ms, begun_ms[0], float(len(begun_ms)), float(times), None, name or None, own)


class CountDetector(base.Detector[Count]):
    """Counts how often the condition, or each name, comes; found again while it goes on being there.

    Only frames that say that it is not there make it away: silence of the vehicle does not. Few vehicles have
    anything to count: ``rare`` has a tuple of ``Seen`` of each, a name each.
    """

    def wakes(self, now: RuleEvaluation) -> tuple[Flags, Flags]:
        return now.holds != 0, now.holds > 0

    def step(self, memory: base.Memory, frames: Features, now: RuleEvaluation) -> base.Detections:
        found: base.Detections = []
        end_ms = frames["end_ms"]
        for lane, place in enumerate(frames.vehicle.tolist()):
            there = (now.names_of(lane) or (UNNAMED,)) if now.holds[lane] > 0 else ()
            seen = {each[0]: Seen(*each) for each in memory.rare.get(place, ())}
            now_ms = int(end_ms[lane])
            for name in seen.keys() - set(there):
                gone = now_ms - seen[name].last_ms >= base.ms(self.spec.absent_s)
                seen[name] = seen[name]._replace(away=seen[name].away or gone)
            for name in dict.fromkeys(there):
                seen[name], each = self._there(seen.get(name), name, now_ms)
                found += [] if each is None else [(lane, each)]
            newest = sorted(seen.values(), key=lambda each: (each.last_ms, each.name))[-NAMES_MAX:]
            memory.rare[place] = tuple(newest)
        memory.on[frames.vehicle] = True
        return found

    def _there(self, before: Seen | None, name: str, now_ms: int) -> tuple[Seen, base.Detection | None]:
        seen = before or Seen(name, now_ms, None, True, ())
        if now_ms < seen.last_ms:
            return seen, None
        if seen.away:
            seen = seen._replace(begun_ms=(*seen.begun_ms, now_ms)[-self.spec.times :])
        seen = seen._replace(last_ms=now_ms, away=False)
        found = _counted(self, seen.begun_ms, now_ms, name)
        since_ms = None if seen.found_ms is None else now_ms - seen.found_ms
        news = since_ms is None or seen.begun_ms[-1] == now_ms or since_ms >= self.again_ms
        if found is None or not news:
            return seen, None
        return seen._replace(found_ms=now_ms), found


class ReversalDetector(base.Detector[Count]):
    """Counts each time that a value, having fallen by ``reversal``, has risen by it from its lowest.

    ``rare``: when it turned up before, ms.
    """

    dtype = base.TURNING

    def step(self, memory: base.Memory, frames: Features, now: RuleEvaluation) -> base.Detections:
        course, value = memory.rows[frames.vehicle], now.value
        course["turning"] = np.where(memory.on[frames.vehicle], course["turning"], value)
        turned = base.turned(course, value, self.spec.reversal or 0.0)
        counts = np.flatnonzero(turned & ~course["falls"] & (now.holds > 0))
        memory.rows[frames.vehicle], memory.on[frames.vehicle] = course, True
        found: base.Detections = []
        for lane in counts.tolist():
            place, now_ms = int(frames.vehicle[lane]), int(frames["end_ms"][lane])
            begun = memory.rare[place] = (*memory.rare.get(place, ()), now_ms)[-self.spec.times :]
            each = _counted(self, begun, now_ms)
            found += [] if each is None else [(lane, each)]
        return found


BOOTS_MAX: Final = 4  # boots that a vehicle's memory keeps, the last ones received
LAST: Final = np.dtype([("end", "f8"), ("received", "f8"), ("watched", "?"), ("found", "f8")])
"""Where the last frame ended, when it was received, whether to watch, when it was found (NaN: not); ms."""


class SilenceDetector(base.Detector[Silence]):
    """Found once, so long (receive clock) after the last frame; ended by the next, buffered or not.

    Also by one after a new version of the rule: nothing else ends the alert.
    """

    dtype = LAST
    outlasts_versions = True

    def wakes(self, now: RuleEvaluation) -> tuple[Flags, Flags]:
        """See Detector: it listens to the frames themselves."""
        return (every := np.ones(len(now.value), np.bool_)), every

    def step(self, memory: base.Memory, frames: Features, now: RuleEvaluation) -> base.Detections:
        last, known = memory.rows[frames.vehicle], memory.on[frames.vehicle]
        found: base.Detections = []
        for lane in np.flatnonzero(known & ~np.isnan(last["found"])).tolist():
            at_ms, since_ms = int(max(frames["t0_ms"][lane], last["found"][lane])), int(last["end"][lane])
            found.append((lane, base.Detection(at_ms, since_ms, None, None, ended=True)))
        last["end"], last["received"], last["found"] = frames["end_ms"], frames["received_ms"], np.nan
        last["watched"] = np.where(now.holds != 0, now.holds > 0, known & last["watched"])
        memory.rows[frames.vehicle], memory.on[frames.vehicle] = last, True
        return found

    def due_ms(self, memory: base.Memory, places: Ints) -> Floats:
        """When (receive clock) each vehicle has been silent for long enough; inf: never. [k]."""
        last = memory.rows[places]
        watched = memory.on[places] & last["watched"] & np.isnan(last["found"])
        return np.where(watched, last["received"] + base.ms(self.spec.silent_for_s), np.inf)

    def expire(self, memory: base.Memory, places: Ints, now_ms: Floats) -> base.Detections:
        """What is found because nothing came up to ``now_ms`` [k], however late that is asked."""
        lanes = np.flatnonzero(self.due_ms(memory, places) < now_ms)
        silent_ms = base.ms(self.spec.silent_for_s)
        end_ms, limit_s = memory.rows["end"][places[lanes]], silent_ms / 1000
        memory.rows["found"][places[lanes]] = end_ms + silent_ms
        each = zip(lanes.tolist(), end_ms.astype(np.int64).tolist(), strict=True)
        return [(lane, base.Detection(at + silent_ms, at, limit_s, limit_s)) for lane, at in each]

    def unended(self, memory: base.Memory, place: int) -> list[tuple[int, str | None]]:
        """See Detector: it was silent until now."""
        last = memory.rows[place]
        return [(int(last["end"]), None)] if memory.on[place] and not np.isnan(last["found"]) else []


class Boot(NamedTuple):
    """What was received of one boot: its samples' span and its receipts' span, ms."""

    boot_id: int
    from_ms: int
    to_ms: int
    first_ms: int
    last_ms: int


BOOT: Final = np.dtype([(name, "f8") for name in (*Boot._fields, "others_ms")])
SPAN: Final = {
    "from_ms": ("t0_ms", np.minimum), "to_ms": ("end_ms", np.maximum),
    "first_ms": ("received_ms", np.minimum), "last_ms": ("received_ms", np.maximum),
}  # fmt: skip
"""By field of a boot what of its frames it is made of."""


class CloneDetector(base.Detector[Clone]):
    """Two boots at once, by the definition of stream_jobs/audit/archive.py.

    It sees frames as they arrive: spans grow whatever the order, and the order leaves out the very frames
    that tell. Before the next finding the overlap must have grown: two boots of long ago are found once. A
    vehicle's record is the boot of its last frame, and when something of another was last received;
    ``rare`` has of those with more than one boot: found at, overlap then, and the other boots.
    """

    dtype = BOOT

    def wakes(self, now: RuleEvaluation) -> tuple[Flags, Flags]:
        """See Detector: no evaluation says anything to it."""
        return (none := np.zeros(len(now.value), np.bool_)), none

    def arrived(self, memory: base.Memory, frames: Features) -> base.Detections:
        """Take in frames as they arrived, of any vehicles: a place may be in ``frames`` more than once."""
        places, came = frames.vehicle, np.zeros(len(frames), BOOT)  # each frame as a boot of one
        came["boot_id"], came["others_ms"] = frames["boot_id"], -np.inf
        for name, (feature, _) in SPAN.items():
            came[name] = frames[feature]
        new = np.flatnonzero(~memory.on[places])[::-1]  # of a place's frames the first one stands
        memory.rows[places[new]], memory.on[places[new]] = came[new], True
        mine = memory.rows[places]
        reach_ms = mine["others_ms"] - np.minimum(mine["first_ms"], came["first_ms"])
        may_overlap = reach_ms > base.ms(self.spec.overlap_s)
        several = np.zeros(len(memory.on), np.bool_)
        several[places[(mine["boot_id"] != came["boot_id"]) | may_overlap]] = True
        alone = ~several[places]
        for name, (_, extreme) in SPAN.items():
            extreme.at(memory.rows[name], places[alone], came[name][alone])
        lanes = np.flatnonzero(~alone).tolist()
        each = ((lane, self._several(memory, int(places[lane]), came[lane].tolist())) for lane in lanes)
        return [(lane, found) for lane, found in each if found is not None]

    def _several(self, memory: base.Memory, place: int, frame: Sequence[float]) -> base.Detection | None:
        """One frame (BOOT) of a vehicle with another boot than the last, or with two that may overlap."""
        found_ms, found_over_ms, *others = memory.rare.get(place, (None, 0))
        now, last = (Boot(*map(int, row[:-1])) for row in (frame, memory.rows[place].tolist()))
        boots = {boot.boot_id: boot for boot in (last, *(Boot(*each) for each in others))}
        was, end_ms = boots.pop(now.boot_id, now), now.to_ms
        mine = Boot(
            now.boot_id, min(was.from_ms, now.from_ms), max(was.to_ms, now.to_ms),
            min(was.first_ms, now.first_ms), max(was.last_ms, now.last_ms),
        )  # fmt: skip
        least_ms = base.ms(self.spec.overlap_s)
        over_ms = max((_overlap_ms(mine, other) for other in boots.values()), default=0)
        kept = sorted(boots.values(), key=lambda boot: (boot.last_ms, boot.boot_id))[1 - BOOTS_MAX :]
        memory.rows[place] = (*mine, max((boot.last_ms for boot in kept), default=-np.inf))
        news = found_ms is None or end_ms - found_ms >= self.again_ms
        finds = news and over_ms > least_ms and over_ms > found_over_ms
        memory.rare[place] = (end_ms, over_ms, *kept) if finds else (found_ms, found_over_ms, *kept)
        if not finds:
            return None
        return base.Detection(end_ms, end_ms - over_ms, over_ms / 1000, least_ms / 1000)


def _overlap_ms(one: Boot, other: Boot) -> int:
    """How long they overlap in sample times, if they do in receive times; the lesser of both."""
    samples = min(one.to_ms, other.to_ms) - max(one.from_ms, other.from_ms)
    receipts = min(one.last_ms, other.last_ms) - max(one.first_ms, other.first_ms)
    return min(samples, receipts)
