"""F15 and F17: a clock ten years ahead, and what a vehicle stored while it had no link."""

from __future__ import annotations

import time
from typing import Any, Final

import orjson

from edge_simulator import scenario
from edge_simulator.sending import run
from load_tests.drills.aggregates import accounted, balanced, start_jobs, windows
from load_tests.drills.evidence import Log, compare, sent
from load_tests.drills.flow import Load, finish
from load_tests.drills.site import Site
from load_tests.drills.verdict import Promise, Verdict, counts, nothing_lost
from stream_jobs.audit.archive import cloned_vehicles

AHEAD_SHARE: Final = 1e-4
BEGIN_S: Final = 240.0
OFFLINE_S: Final = 1800
BEFORE_S: Final = 10
"""The vehicles report so long before they lose the link."""
AFTER_S: Final = 30
STORED_VEHICLES: Final = 20
UPLOAD_RATE: Final = 100
CLONE_SHARE: Final = 0.02


def f15(site: Site, load: Load, share: float = AHEAD_SHARE) -> Verdict:
    """A few frames are stamped with the day in 2036 on which NTP's seconds roll over."""
    log = Log(site.settings, site.endpoints)
    site.bridge()
    start_jobs(site)
    site.simulate("f15", *load.arguments("--clock-ahead", f"{share:g}"))
    finish(site, "f15", load.duration_s + BEGIN_S)
    ledger = balanced(site)
    written = sent(site.home, "f15")
    offenders = sum(flag == "clock_ahead" for flag in written.flags.values())
    honest = len(set(written.frames)) - offenders
    found = compare(log, written)
    row = windows(site, log, [vehicle for vehicle, _, _ in written.frames])
    promises = (
        *nothing_lost(found),
        accounted(ledger),
        Promise("no honest frame is dropped from the windows", ledger.counted + ledger.repaired == honest,
                f"{ledger.counted + ledger.repaired} of {honest}"),
        Promise("all offenders are quarantined", ledger.quarantined == offenders > 0,
                f"{ledger.quarantined} of {offenders}"),
        row.promise(),
    )  # fmt: skip
    figures: dict[str, Any] = counts(found) | {
        "offenders": offenders,
        "quarantined": ledger.quarantined,
        "late": ledger.late,
        "repaired": ledger.repaired,
    }
    return Verdict("f15", promises, figures)


def f17(site: Site, load: Load) -> Verdict:
    """Twenty vehicles send the frames of half an hour at once, beside a fleet that drives on."""
    log = Log(site.settings, site.endpoints)
    site.bridge()
    start_jobs(site)
    site.simulate("f17-live", *load.arguments())
    burst_s = _burst(site, "f17-burst", load.seed + 1)
    finish(site, "f17-live", load.duration_s + BEGIN_S)
    ledger = balanced(site)
    written = sent(site.home, "f17-burst", "f17-live")
    found, dead = compare(log, written), log.appended("dead-letter")
    stored = {identity[0] for identity, flag in written.flags.items() if flag == "stored"}
    row = windows(site, log, sorted(stored))
    promises = (
        *nothing_lost(found),
        Promise("nothing is rejected", dead == 0, f"{dead}"),
        accounted(ledger),
        Promise("the late ones are repaired", ledger.repaired > 0, f"{ledger.repaired} of {ledger.late}"),
        row.promise(),
    )
    figures: dict[str, Any] = counts(found) | {
        "stored": sum(flag == "stored" for flag in written.flags.values()),
        "stored_vehicles": len(stored),
        "burst_s": burst_s,
        "late": ledger.late,
        "repaired": ledger.repaired,
    }
    return Verdict("f17", promises, figures)


def _burst(site: Site, run_id: str, seed: int) -> float:
    """Half an hour of ``STORED_VEHICLES`` without a link, in time-lapse, up to now; how long it took, s."""
    lasts_s = BEFORE_S + OFFLINE_S + AFTER_S
    link = {
        "outage_share": 1.0, "outage_at_s": float(BEFORE_S), "outage_min_s": float(OFFLINE_S),
        "outage_max_s": float(OFFLINE_S), "upload_rate": float(UPLOAD_RATE),
    }  # fmt: skip
    options = {
        "vehicles": STORED_VEHICLES, "interval": "1s", "duration": f"{lasts_s}s", "seed": seed, "link": link,
    }  # fmt: skip
    start_ms = time.time_ns() // 1_000_000 - 1000 * lasts_s
    wanted = scenario.read(None, site.settings, options, start_ms)
    names = run.connection_names(str(STORED_VEHICLES), STORED_VEHICLES, run_id)
    root = site.settings.mqtt.root
    run_options = run.RunOptions(run_id, root, 20_000, 60.0, paced=False, clients=names, log_frames=True)
    begun = time.monotonic()
    run.publish(site.settings, wanted, run_options, site.say)
    return round(time.monotonic() - begun, 1)


def f18(site: Site, load: Load) -> Verdict:
    """A second device under some vehicles' identity; then the same fleet starts anew, without one."""
    log = Log(site.settings, site.endpoints)
    site.bridge()
    start_jobs(site)
    flagged: list[set[str]] = []
    for run_id, share in (("f18-clones", CLONE_SHARE), ("f18-reboot", 0.0)):
        site.simulate(run_id, *load.arguments("--set", f"link.clone_share={share:g}"))
        finish(site, run_id, load.duration_s + BEGIN_S)
        ledger = balanced(site)
        flagged.append({clone.vehicle_id for clone in cloned_vehicles(site.home)})
    truth = (site.home / "runs" / "f18-clones" / "truth.jsonl").read_bytes().splitlines()
    told = {row["vehicle_id"] for row in map(orjson.loads, truth) if row["kind"] == "clone"}
    found = compare(log, sent(site.home, "f18-clones", "f18-reboot"))
    promises = (
        *nothing_lost(found),
        accounted(ledger),
        Promise("every cloned vehicle is flagged", told <= flagged[0] and bool(told),
                f"{len(told & flagged[0])} of {len(told)}"),
        Promise("no other vehicle is flagged", flagged[0] <= told, f"{len(flagged[0] - told)}"),
        Promise("a reboot flags none", flagged[1] == flagged[0], f"{len(flagged[1] - flagged[0])}"),
    )  # fmt: skip
    return Verdict("f18", promises, counts(found) | {"cloned": len(told), "flagged": len(flagged[0])})
