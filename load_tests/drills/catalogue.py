"""The drills by name: what each does, how large it is by default, what it asks of its site."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from infra.settings.sections import Profile
from infra.settings.settings import Sections
from infra.stack.hosts.cluster import ALONE
from load_tests.drills.acks import acks
from load_tests.drills.alert_faults import f9
from load_tests.drills.backlog import f19
from load_tests.drills.bridge_cluster import c5, c6
from load_tests.drills.bridge_faults import Kills, f1, f1_windows, f2
from load_tests.drills.broker_faults import f5, f6
from load_tests.drills.checkpoint_faults import f12, f13
from load_tests.drills.cluster import c2
from load_tests.drills.dashboard_faults import OWN_SECRET, c8
from load_tests.drills.database_faults import ASYNCHRONOUS, c7
from load_tests.drills.erasure import erasure
from load_tests.drills.flow import Load
from load_tests.drills.kafka_cluster import ONE_COPY, c1, c10
from load_tests.drills.kafka_faults import f3, f4, f14
from load_tests.drills.lease_faults import c9
from load_tests.drills.overload import overload
from load_tests.drills.payload_faults import f16, refused
from load_tests.drills.poison.attack import Attack
from load_tests.drills.poison.run import poison
from load_tests.drills.poison.table import ATTACKS
from load_tests.drills.region_faults import TOLD_AGAIN, c4
from load_tests.drills.replay_faults import replay_full, replay_kill
from load_tests.drills.replay_ways import replay_ways
from load_tests.drills.rescale import c3
from load_tests.drills.site import Disk, Site
from load_tests.drills.spark_faults import f7, f8
from load_tests.drills.upgrade import upgrade
from load_tests.drills.vehicle_faults import f15, f17, f18
from load_tests.drills.verdict import Verdict

Run = Callable[[Site, Load, "str | None"], Verdict]


@dataclass(frozen=True, slots=True)
class Drill:
    """A drill. ``settings`` are those of its site; ``mutants`` are the defects it must see."""

    name: str
    title: str
    rate: float
    duration_s: float
    run: Run
    settings: Sections = field(default_factory=dict)
    mutants: tuple[str, ...] = ()
    times: int = 1
    """How often the fault is put in."""
    disk: Disk | None = None
    profile: Profile = ALONE
    """Of which services there are several."""


def _honest(run: Callable[[Site, Load], Verdict]) -> Run:
    """A drill that is made to see no mutant."""
    return lambda site, load, _: run(site, load)


def _f1(site: Site, load: Load, mutant: str | None) -> Verdict:
    return f1(site, load, _kills(load), mutant)


def _kills(load: Load) -> Kills:
    return Kills(KILL_EVERY_S * load.rate, at_most=math.ceil(load.duration_s / KILL_EVERY_S) - 1)


def _poison(name: str, title: str, attacks: tuple[Attack, ...]) -> Drill:
    return Drill(name, title, 0, 0, lambda site, _, mutant: poison(site, mutant, attacks),
                 mutants=tuple(mutant for attack in attacks for mutant in attack.mutants))  # fmt: skip


KILL_EVERY_S: Final = 5.0
SMALL_WINDOW: Final[Sections] = {"bridge": {"max_in_flight": 4000}}
"""So that bounds on duplicates and memory mean something."""

OVERLOAD: Final[Sections] = {
    "jobs": {"max_offsets": 250},
    "overload": {"classes": "car", "lag_records": 1500, "grow_s": 5, "calm_records": 300, "least_s": 15,
                 "show_every_s": 10},
}  # fmt: skip
"""So much a batch that a fleet of this size is too much, without its cars not."""

SMALL_BATCHES: Final[Sections] = {"jobs": {"max_offsets": 500}}
"""So that late frames come batches later on a slow machine too: no window is closed within a batch."""

FORGETFUL: Final[Sections] = {
    "jobs": {"archive_trigger_s": 2, "instant_trigger_s": 5, "crash_trigger_s": 5, "clock_s": 1},
    "archive": {"grace_min": 0}, "recompute": {"hour_utc": -1},
}  # fmt: skip
"""So that what goes by itself in minutes or hours goes at once, and nobody restates meanwhile."""

DRILLS: Final = (
    Drill("f1", "kill -9 the bridge every 5 s", 2000, 120, _f1, SMALL_WINDOW, ("ack-before-produce",)),
    Drill("f1-windows", "the same, through to the windows", 500, 60,
          lambda site, load, _: f1_windows(site, load, _kills(load)), SMALL_WINDOW),
    Drill("f2", "SIGSTOP the bridge for 50 s", 2000, 90, _honest(f2)),
    Drill("f3", "kill -9 Kafka, back after 20 s", 2000, 60, _honest(f3), SMALL_WINDOW),
    Drill("f4", "SIGSTOP Kafka for 60 s", 2000, 100, _honest(f4), SMALL_WINDOW),
    Drill("f5", "kill -9 the broker while it holds 10 s of frames, without and with the vehicles' buffer",
          1000, 45, _honest(f5)),
    Drill("f6", "the bridge stays away until the broker's queue overflows", 1000, 15, _honest(f6),
          {"mqtt": {"max_queued_messages": 5000}}),
    Drill("f7", "kill -9 the Spark application at random moments", 100, 0, f7, SMALL_BATCHES,
          ("early-close", "no-sequencer"), times=50),
    Drill("f8", "kill -9 between the database's commit and Spark's", 200, 3, f8, {}, ("no-ledger",), times=5),
    Drill("f9", "kill -9 the alert query and the event store in turn", 100, 30, _honest(f9),
          {"jobs": {"instant_trigger_s": 5, "crash_trigger_s": 5}}, times=20),
    Drill("c1", "kill -9 the leader of a partition, six times, then two of three brokers", 100, 10,
          c1, {}, (ONE_COPY,), times=6, profile=Profile(kafka=3)),
    Drill("c10", "telemetry gets 8 partitions instead of 4 while frames flow, through to trips", 100, 60,
          c10, {"kafka": {"partitions": 4}}, ("no-sequencer",)),
    Drill("c2", "kill -9 executors, a worker, the master and the driver of a Spark cluster", 60, 240, c2,
          SMALL_BATCHES, ("local-staging",), times=5, profile=Profile(workers=3)),
    Drill("c3", "the state of the stream jobs in more buckets while frames flow, killed once midway", 60,
          120, c3, SMALL_BATCHES, ("forgetful-split",)),
    Drill("c4", "kill -9 all of a region; the other one takes over with the copy of its log, and gives back",
          60, 30, c4, {"region": {"name": "A", "other": "B=127.0.0.1:1"}}, (TOLD_AGAIN,),
          profile=Profile(postgres=2)),
    Drill("c7", "kill -9 PostgreSQL's primary amid COPY, then while its standby lags; promote each", 100, 20,
          c7, {}, (ASYNCHRONOUS,), times=2, profile=Profile(postgres=2)),
    Drill("c8", "kill -9 the dashboard that has the page, of two behind one address; rate: vehicles", 300, 0,
          c8, {}, (OWN_SECRET,), times=2),
    Drill("c9", "SIGSTOP the holder of each lease past its time, beside a second of each program", 60, 10, c9,
          {"jobs": {"instant_trigger_s": 5, "crash_trigger_s": 5}}, ("no-fencing",),
          profile=Profile(hosts=2)),
    Drill("f12", "the disk of the checkpoints fills up", 50, 20, _honest(f12), disk=Disk("checkpoints", 64)),
    Drill("f13", "the newest state file is cut in half", 50, 20, _honest(f13)),
    Drill("f14", "Kafka's disk fills up", 1000, 60, _honest(f14), disk=Disk("data/kafka", 400)),
    Drill("f15", "one frame in 10,000 is stamped years ahead, through to the windows", 500, 60, _honest(f15)),
    Drill("f17", "20 vehicles send half an hour at once, through to the windows", 200, 60, _honest(f17)),
    Drill("f18", "a second device under a vehicle's identity; then a mere reboot", 200, 60, _honest(f18)),
    Drill("f19", "a cold start before a full log: rate vehicles, a frame a second, for so long", 5000, 400,
          _honest(f19)),
    Drill("f16", "5 % poison among healthy frames; runs with and without in turn", 1000, 15, _honest(f16)),
    Drill("replay-kill", "kill -9 a replay in each of its phases", 40, 90, _honest(replay_kill)),
    Drill("replay-ways", "each way a replay can begin, other rules, into live", 40, 150,
          _honest(replay_ways)),
    Drill("replay-full", "the disk of the replays fills up", 40, 60, _honest(replay_full),
          disk=Disk("replays", 256)),
    Drill("erasure", "a vehicle of a week is erased beside the pipeline; every store's bytes are searched",
          120, 90, _honest(erasure), FORGETFUL),
    Drill("refused", "frames that only Kafka refuses", 0, 0,
          lambda site, _, mutant: refused(site, mutant), {}, ("no-gapless",)),
    Drill("c5", "kill -9 one of two MQTT brokers while it holds frames, through to windows and trips",
          200, 60, c5, {}, ("no-keep",), profile=Profile(mqtt=2)),
    Drill("c6", "kill -9 one of three bridges, then a fourth one joins", 1000, 60, c6,
          {"bridge": {"shards": 4, "max_in_flight": 4000}}, ("own-sessions", "whole-tree")),
    Drill("upgrade", "the version before this one's operators under load, then this one, program by program",
          60, 60, _honest(upgrade), SMALL_BATCHES),
    Drill("overload", "more than the stream takes: cars are put off, and taken in when it is over", 300, 60,
          overload, OVERLOAD, ("unlisted",)),
    Drill("acks", "kill -9 the bridge when only some of what it read is stored", 0, 0,
          lambda site, _, mutant: acks(site, mutant), {}, ("no-fifo", "no-epochs")),
    _poison("poison-2", "what a stranger, a web page or a hostile file tries, each attack in turn", ATTACKS),
)  # fmt: skip

SINGLE_ATTACKS: Final = tuple(_poison(f"poison-2:{each.name}", each.title, (each,)) for each in ATTACKS)
"""The attacks of poison-2 by themselves."""

CLUSTER: Final = tuple(sorted((d for d in DRILLS if d.name[0] == "c"), key=lambda drill: int(drill.name[1:])))
"""Those of several hosts."""
