"""F5 and F6: the broker is killed, or its queue for an absent bridge overflows."""

from __future__ import annotations

import os
import signal
import time
from typing import Any, Final

import orjson

from infra.stack.mosquitto import BrokerWatch
from load_tests.drills.checker import Findings
from load_tests.drills.evidence import Log, compare, sent
from load_tests.drills.flow import Load, finish, flows, settle
from load_tests.drills.site import Site
from load_tests.drills.verdict import Promise, Verdict, counts, nothing_lost

KEEP_S: Final = 60
"""Longer than the broker's autosave interval: what it had acknowledged and not written is sent again."""
HELD_S: Final = 10.0
BEGIN_S: Final = 120.0
SETTLE_S: Final = 180.0
FIGURES_S: Final = 3.0
"""The broker tells its counts once a second."""


def f5(site: Site, load: Load) -> Verdict:
    """kill -9 the broker while it holds ``HELD_S`` of frames: without and with the vehicles' buffer."""
    without, _ = _broker_killed(site, "f5-plain", load)
    with_buffer, drained_s = _broker_killed(site, "f5-buffer", load, "--keep-sent", f"{KEEP_S}s")
    promises = [Promise(f"with the buffer: {p.text}", p.holds, p.found) for p in nothing_lost(with_buffer)]
    figures: dict[str, Any] = {f"buffer_{name}": n for name, n in counts(with_buffer).items()}
    figures |= {f"plain_{name}": n for name, n in counts(without).items()} | {"drained_s": drained_s}
    return Verdict("f5", tuple(promises), figures)


def _broker_killed(site: Site, run_id: str, load: Load, *options: str) -> tuple[Findings, float]:
    log = Log(site.settings, site.endpoints)
    log.begin_here("telemetry")
    site.bridge()
    os.kill(site.running("mosquitto"), signal.SIGUSR1)  # the session is on the disk, as after an autosave
    site.simulate(run_id, *load.arguments(*options))
    flows(site, run_id, load.rate * load.duration_s / 3, load.duration_s + BEGIN_S)
    with site.paused("bridge"):
        time.sleep(HELD_S)
        site.kill("mosquitto")
        site.restart_service("mosquitto")
    finish(site, run_id, load.duration_s + BEGIN_S)
    site.wait_ready("bridge")
    drained_s = settle(site, SETTLE_S)
    site.stop("bridge")
    return compare(log, sent(site.home, run_id)), drained_s


def f6(site: Site, load: Load) -> Verdict:
    """The bridge stays away until the broker's queue for it overflows."""
    log = Log(site.settings, site.endpoints)
    log.begin_here("telemetry", "status")
    site.bridge()
    site.stop("bridge")
    with BrokerWatch(site.endpoints.mqtt) as broker:
        before = broker.figures().dropped
        site.simulate("f6", *load.arguments())
        finish(site, "f6", load.duration_s + BEGIN_S)
        time.sleep(FIGURES_S)
        dropped = broker.figures().dropped - before
    site.bridge()
    drained_s = settle(site, SETTLE_S)
    found = compare(log, sent(site.home, "f6"))
    run = site.run_file("f6")
    status = int(run["messages"]["sent"]) - int(run["sent"])
    lost_status = status - _words(log, int(run["boot_id"]))
    promises = (
        Promise("the queue overflowed", dropped > 0, f"{dropped}"),
        Promise("what is missing is what the broker says it dropped", found.lost + lost_status == dropped,
                f"{found.lost} frames and {lost_status} status messages; dropped: {dropped}"),
        *nothing_lost(found)[1:],
    )  # fmt: skip
    return Verdict("f6", promises, counts(found) | {"dropped": dropped, "drained_s": drained_s})


def _words(log: Log, boot_id: int) -> int:
    """Births and farewells of a run that were stored, each once."""
    bodies = [orjson.loads(message.value() or b"{}") for message in log.messages("status")]
    return len({(b["vehicle_id"], b["seq"]) for b in bodies if b.get("boot_id") == boot_id and "seq" in b})
