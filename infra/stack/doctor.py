"""Examines every part of the installation and names what is wrong and the next step."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC

from infra.contract.errors import OdographError
from infra.settings.settings import Endpoints, endpoints
from infra.sql.migrate import pending
from infra.stack import cache, fetch, probes
from infra.stack.kafka import missing_topics
from infra.stack.mosquitto import broker_figures
from infra.stack.stack import Stack
from infra.stack.status import Part, parts

DISK_FREE_GB = 2.0
RECENT_H = 24
PYTHON_MIN = (3, 11)


@dataclass(frozen=True, slots=True)
class Finding:
    """One examined thing; ``next_step`` is what to do when it is not fine."""

    name: str
    fine: bool
    detail: str
    next_step: str = ""


def examine(stack: Stack) -> list[Finding]:
    """Everything, from the ground up."""
    found = [_python(), _java(), *_disks(stack), *_caches(stack)]
    if {"postgres", "mosquitto"} & set(stack.embedded):
        found.append(_namespaces())
    found += [_part(part) for part in parts(stack)]
    return found + list(_addresses(stack))


def _python() -> Finding:
    version = ".".join(map(str, sys.version_info[:3]))
    return Finding("python", sys.version_info >= PYTHON_MIN, version, "install Python 3.11 or newer")


def _java() -> Finding:
    version = fetch.java_version()
    fine = version is not None and version >= fetch.JAVA_MIN
    return Finding("java", fine, f"version {version}" if version else "none", "odograph setup")


def _disks(stack: Stack) -> Iterable[Finding]:
    for name, folder in (("disk of the home", stack.home), ("disk of the cache", stack.settings.paths.cache)):
        there = next(path for path in (folder, *folder.parents) if path.exists())
        free_gb = shutil.disk_usage(there).free / 1e9
        detail = f"{free_gb:.1f} GB free at {folder}"
        yield Finding(name, free_gb >= DISK_FREE_GB, detail, f"free at least {DISK_FREE_GB:g} GB there")


def _caches(stack: Stack) -> Iterable[Finding]:
    folder = stack.settings.paths.cache
    wanted = {"spark jars": cache.jar_dir(folder, "spark")}
    if "kafka" in stack.embedded:
        wanted["kafka jars"] = cache.jar_dir(folder, "kafka")
    if {"postgres", "mosquitto"} & set(stack.embedded):
        wanted["root file system"] = cache.rootfs_dir(folder)
    for name, place in wanted.items():
        yield Finding(name, cache.is_complete(place), str(place), "odograph setup")


def _namespaces() -> Finding:
    """Whether a private mount namespace can be had: the embedded services need one."""
    if os.geteuid() != 0:
        return Finding("mount namespace", False, "not root", "run as root" + fetch.WITHOUT_ROOT)
    tried = subprocess.run(
        ["unshare", "--mount", "--propagation", "private", "true"],
        capture_output=True,
        text=True,
        check=False,
    )
    detail = tried.stderr.strip() or "can be had"
    step = "allow this container to mount (CAP_SYS_ADMIN)" + fetch.WITHOUT_ROOT
    return Finding("mount namespace", tried.returncode == 0, detail, step)


def _part(part: Part) -> Finding:
    detail = part.state if not part.address else f"{part.state}, {part.address}"
    if part.trouble is None:
        return Finding(part.name, True, detail)
    problem, _, step = part.trouble.rpartition("; ")
    return Finding(part.name, False, f"{detail}: {problem}", step)


def _addresses(stack: Stack) -> Iterable[Finding]:
    """Round trips through the addresses in force, as the processes use them."""
    try:
        found = endpoints(stack.settings)
    except OdographError as error:
        return [Finding("addresses", False, str(error), "odograph up")]
    prefix = stack.settings.kafka.prefix
    return [
        _tried("MQTT round trip", lambda: probes.mqtt_echo(found.mqtt)),
        _tried("Kafka round trip", lambda: probes.kafka_cluster(found.kafka_bootstrap)),
        _tried("database as owner", lambda: probes.database(found.db_owner_url)),
        _tried("database as ingest", lambda: probes.database(found.db_ingest_url)),
        _tried("database as dashboard", lambda: probes.database(found.db_dashboard_url)),
        _tried("database as dispatch", lambda: probes.database(found.db_dispatch_url)),
        _queue(found),
        _sessions(found),
        _tasks(found),
        _none_of("topics", lambda: missing_topics(found.kafka_bootstrap, prefix)),
        _none_of("migrations", lambda: pending(found.db_owner_url)),
    ]


def _queue(addresses: Endpoints) -> Finding:
    """Messages that the broker acknowledged to a vehicle and then dropped are lost."""
    name = "broker's queue"
    try:
        figures = broker_figures(addresses.mqtt)
    except OdographError as error:
        return Finding(name, False, str(error), "odograph status, then the log it names")
    detail = f"{figures.queued:,} messages wait, {figures.dropped:,} dropped since its start"
    step = "see that the bridge runs and keeps up; count the loss: odograph audit"
    return Finding(name, figures.dropped == 0, detail, step)


def _sessions(addresses: Endpoints) -> Finding:
    """What the broker held for a bridge may be gone with the session."""
    name = "bridge's session"
    try:
        losses = probes.session_losses(addresses.db_ingest_url, RECENT_H)
    except OdographError as error:
        return Finding(name, False, str(error), "odograph status, then the log it names")
    if not losses:
        return Finding(name, True, f"never lost in the last {RECENT_H} h")
    at, what = losses[-1]
    last = f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC: {what}"
    detail = f"lost {len(losses)} times in {RECENT_H} h, last at {last}"
    step = "what went with it: odograph audit; who may use the bridge's client id: a login and an access list"
    return Finding(name, False, detail, step)


def _tasks(addresses: Endpoints) -> Finding:
    """Periodic tasks whose last run failed: each by name, error and since when."""
    name = "periodic tasks"
    try:
        failing = probes.failing_tasks(addresses.db_ingest_url)
    except OdographError as error:
        return Finding(name, False, str(error), "odograph status, then the log it names")
    step = "see to what the error names (logs: jobs, maintenance); each task is tried again by itself"
    return Finding(name, not failing, "\n".join(failing) or "none fails", step)


def _tried(name: str, probe: Callable[[], str]) -> Finding:
    try:
        return Finding(name, True, probe())
    except OdographError as error:
        return Finding(name, False, str(error), "odograph status, then the log it names")


def _none_of(name: str, missing: Callable[[], list[str]]) -> Finding:
    try:
        lacking = missing()
    except OdographError as error:
        return Finding(name, False, str(error), "odograph status, then the log it names")
    return Finding(
        name, not lacking, f"missing: {', '.join(lacking)}" if lacking else "all there", "odograph up"
    )
