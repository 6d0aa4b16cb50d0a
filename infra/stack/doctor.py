"""Examines every part of the installation and names what is wrong and the next step."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from ipaddress import ip_address
from pathlib import Path

from rich.markup import escape

from infra.clients.basemap import OPTION, find
from infra.clients.db import system_user
from infra.clients.tables import rendered, table
from infra.contract import policy
from infra.contract.errors import OdographError
from infra.settings.sections import Kafka, Watch
from infra.settings.settings import Endpoints, endpoints
from infra.sql.migrate import pending
from infra.stack import probes, processes
from infra.stack.access import identity, users
from infra.stack.downloads import cache, fetch
from infra.stack.downloads.rootfs import PRIVATE_MOUNTS
from infra.stack.kafka import acl_faults, missing_topics, topic_faults
from infra.stack.mosquitto import broker_figures, tells_refused
from infra.stack.service import HOST, listening, sockets_of
from infra.stack.stack import DEVICES, Stack
from infra.stack.status import Part, partitions, parts

DISK_FREE_GB = 2.0
FORBIDDEN = 403
SPARK = ("jobs", "instant")
RECENT_H = 24
PYTHON_MIN = (3, 11)


Answer = tuple[bool, str, str]  # whether it is fine, the detail, the next step where it is not


@dataclass(frozen=True, slots=True)
class Finding:
    """One examined thing; ``next_step`` is what to do when it is not fine."""

    name: str
    fine: bool
    detail: str
    next_step: str = ""


def examine(stack: Stack) -> list[Finding]:
    """Everything, from the ground up."""
    return [*_machine(stack), *map(_part, parts(stack)), *_addresses(stack), *_hops(stack)]


def _machine(stack: Stack) -> Iterable[Finding]:
    version = ".".join(map(str, sys.version_info[:3]))
    yield Finding("python", sys.version_info >= PYTHON_MIN, version, "install Python 3.11 or newer")
    java = fetch.java_version()
    fine = java is not None and java >= fetch.JAVA_MIN
    yield Finding("java", fine, f"version {java}" if java else "none", "odograph setup")
    store = stack.settings.paths.cache
    for name, folder in (("disk of the home", stack.home), ("disk of the cache", store)):
        there = next(path for path in (folder, *folder.parents) if path.exists())
        free_gb = shutil.disk_usage(there).free / 1e9
        detail = f"{free_gb:.1f} GB free at {folder}"
        yield Finding(name, free_gb >= DISK_FREE_GB, detail, f"free at least {DISK_FREE_GB:g} GB there")
    in_rootfs = {"postgres", "mosquitto"} & set(stack.embedded)
    wanted = {"spark jars": cache.jar_dir(store, "spark")}
    wanted |= {"kafka jars": cache.jar_dir(store, "kafka")} if "kafka" in stack.embedded else {}
    wanted |= {"root file system": cache.rootfs_dir(store)} if in_rootfs else {}
    for name, place in wanted.items():
        yield _fetched(name, place)
    basemap = stack.settings.dashboard.basemap
    if basemap:
        problem = find(basemap).problem
        yield Finding("basemap", not problem, problem or "can be used", f"mend {OPTION}, or leave it out")
    if in_rootfs and os.geteuid() != 0:
        yield Finding("mount namespace", False, "not root", "run as root" + fetch.WITHOUT_ROOT)
    elif in_rootfs:  # the embedded services need a private one
        tried = subprocess.run([*PRIVATE_MOUNTS, "true"], capture_output=True, text=True, check=False)
        step = "allow this container to mount (CAP_SYS_ADMIN)" + fetch.WITHOUT_ROOT
        detail = tried.stderr.strip() or "can be had"
        yield Finding("mount namespace", tried.returncode == 0, detail, step)


def _fetched(name: str, place: Path) -> Finding:
    if not cache.is_complete(place):
        return Finding(name, False, str(place), "odograph setup")
    try:
        cache.verify(place)
    except OdographError as error:
        problem, _, step = str(error).partition(": nothing is started. ")
        return Finding(name, False, problem, step)
    return Finding(name, True, f"{place}, as it was fetched (SHA-256)")


def _part(part: Part) -> Finding:
    detail = part.state if not part.address else f"{part.state}, {part.address}"
    if part.trouble is None:
        return Finding(part.name, True, detail)
    problem, _, step = part.trouble.rpartition("; ")
    return Finding(part.name, False, f"{detail}: {problem}", step)


def _addresses(stack: Stack) -> Iterable[Finding]:
    try:
        found = endpoints(stack.settings)
    except OdographError as error:
        yield Finding("addresses", False, str(error), "odograph up")
        return
    roles = {"owner": found.db_owner_url, "ingest": found.db_ingest_url}
    roles |= {"dashboard": found.db_dashboard_url, "dispatch": found.db_dispatch_url}
    roles |= found.db_program_urls
    topics = partial(missing_topics, found.kafka_bootstrap, stack.settings.kafka.prefix)
    checks: dict[str, Callable[[], str | Answer]] = {
        "MQTT round trip": lambda: "; ".join(map(probes.mqtt_echo, found.brokers)),
        "Kafka round trip": lambda: probes.kafka_cluster(found.kafka_bootstrap),
        **{f"database as {role}": partial(probes.database, url) for role, url in roles.items()},
        "broker's queue": lambda: _queue(found),
        "bridge's session": lambda: _sessions(found),
        "periodic tasks": lambda: _tasks(found),
        "topics": lambda: _none_of(topics()),
        "copies of topics": lambda: _copies(found, stack.settings.kafka),
        "partitions": lambda: _hot(found, stack.settings.watch),
        "migrations": lambda: _none_of(pending(found.db_owner_url)),
    }
    for name, check in checks.items():
        try:
            answer = check()
        except OdographError as error:
            answer = (False, str(error), "odograph status, then the log it names")
        yield Finding(name, True, answer) if isinstance(answer, str) else Finding(name, *answer)


def _hops(stack: Stack) -> Iterable[Finding]:
    """What is on and off, hop by hop, tried as a stranger would. Open on loopback is no fault, and said."""
    address = stack.settings.mqtt.address
    hops: dict[str, Callable[[Stack], Answer]] = {
        "vehicle to broker": partial(
            _broker_hop, listener=DEVICES, host=HOST if address.is_unspecified else str(address)
        ),
        "programs to broker": partial(_broker_hop, listener="mosquitto", host=HOST),
        "programs to Kafka": _kafka_hop,
        "programs to database": _database_hop,
        "browser to dashboard": _dashboard_hop,
        "Spark's own ports": _spark_hop,
        "health pages": _health_hop,
        "users of programs": _users_hop,
    }
    for name, hop in hops.items():
        try:
            answer = hop(stack)
        except (OdographError, KeyError) as error:
            answer = (False, f"cannot be tried: {error}", "odograph up")
        yield Finding(f"hop: {name}", *answer)


ON = "TLS on ({}), certificates on: a client without one is refused"


def _open(stack: Stack, name: str) -> Answer:
    words = f"TLS off, login off: open to every program of this machine, {_reach(_listeners(stack, name))}"
    return "BEYOND" not in words, words, "certificates: odograph up --secure"


def _broker_hop(stack: Stack, listener: str, host: str) -> Answer:
    if brokers := stack.settings.mqtt.brokers():
        tls = "on" if brokers[0].tls else "off: mqtts:// in ODOGRAPH_MQTT_URL"
        return True, f"external, TLS {tls}, login {'on' if brokers[0].user else 'off'}", ""
    if not stack.secure:
        return _open(stack, "mosquitto")
    kind = identity.DEVICES if listener == DEVICES else identity.SERVICES
    now, issued = datetime.now(UTC), identity.Authority(stack.home, kind).issued()
    newest = {one.name: one for one in issued if one.state(now) in identity.GOOD}
    ending = sorted(name for name, one in newest.items() if one.state(now) == "expires soon")
    version = probes.tls_server(stack.ports()[listener], str(stack.ca), host)
    told = tells_refused(stack.home / "config" / "mosquitto")
    detail = f"{ON.format(version)} ({len(newest)} have one), access list on, revocations on, "
    detail += f"refused publishes {'in the audit log' if told else 'told to their sender only'}"
    if ending:
        named = ", ".join(f"{name} {newest[name].ends:%Y-%m-%d}" for name in ending[:5])
        detail += f"; {len(ending)} end within {identity.WARN_DAYS} days: {named}"
    step = "odograph device rotate NAME, or revoke it" if kind == identity.DEVICES else "odograph up"
    return not ending, detail, step


def _kafka_hop(stack: Stack) -> Answer:
    s = stack.settings
    if s.kafka.bootstrap:
        tls, login = ("on" if file else "off" for file in (s.kafka.ca_file, s.kafka.cert_file))
        return True, f"external, TLS {tls}, certificate {login}", ""
    if not stack.secure:
        return _open(stack, "kafka")
    version = probes.tls_server(stack.ports()["kafka"], str(stack.ca))
    wanted = policy.kafka_acls(s.kafka.prefix, s.bridge.client_id, s.region.other_name)
    wrong = acl_faults(stack.endpoints().logged_in(policy.OPERATOR).kafka_bootstrap, wanted)
    detail = "; ".join(wrong[:5]) or f"{ON.format(version)}, access list on: {len(wanted)} permissions"
    return not wrong, detail, "odograph up puts it right"


def _database_hop(stack: Stack) -> Answer:
    given, login = stack.settings.db.given(), "login on (SCRAM), a role each"
    plain = [f"ODOGRAPH_DB_{key}".upper() for key, url in given.items() if "sslmode=verify-full" not in url]
    if given:
        tls = f"not by sslmode=verify-full: {', '.join(plain)}" if plain else "TLS on, verify-full"
        return True, f"external, {tls}; {login}", ""
    if not stack.secure:
        return True, f"TLS off, {login}; {HOST} only", ""
    version = probes.database_tls(stack.superuser_url())
    return True, f"TLS on ({version}), verify-full, plain connections refused; {login}", ""


def _dashboard_hop(stack: Stack) -> Answer:
    s = stack.settings.dashboard
    login = "OpenID Connect and roles on" if s.oidc else "sign-in off: who opens it on this machine may act"
    if stack.runner.find("dashboard") is None:
        return True, f"does not run; {login}", ""
    tls = "off"
    if stack.secure:
        version = probes.tls_server(stack.ports()["dashboard"], str(stack.ca), asks=False)
        tls = f"on ({version}), plain http refused"
    status = probes.foreign_host(stack.pages()["dashboard"])
    names = "checked" if status == FORBIDDEN else "NOT checked"
    detail = f"TLS {tls}, host names {names}; {login}; {s.address}"
    return status == FORBIDDEN, detail, "another program answers on its port: odograph down, odograph up"


def _spark_hop(stack: Stack) -> Answer:
    pages = {(HOST, port) for port in stack.ports().values()}
    found = {place for name in SPARK for place in _listeners(stack, name)} - pages
    taken = sorted(port for _, port in found if not probes.rejects_rpc(port))
    detail = f"{len(found)} ports, {_reach(found)}; TLS off, login {f'off on {taken}' if taken else 'on'}"
    return not taken, detail, "spark.authenticate true, and a secret, in the cluster's spark-defaults.conf"


def _health_hop(stack: Stack) -> Answer:
    pages = {name: where for name, where in stack.pages().items() if name != "dashboard"}
    there = {name: probes.foreign_host(where) for name, where in pages.items() if stack.runner.find(name)}
    found = {place for name in there for place in _listeners(stack, name) if name not in SPARK}
    wrong = sorted(name for name, status in there.items() if status != FORBIDDEN)
    names = f"NOT checked by {', '.join(wrong)}" if wrong else "checked"
    detail = f"{len(there)} pages, {_reach(found)}; TLS off, login off (no secrets there), host names {names}"
    return not wrong, detail, "another program answers on their ports: odograph down, odograph up"


WAY_OUT = "odograph down, odograph up --secure, as root"


def _users_hop(stack: Stack) -> Answer:
    found = {name: stack.runner.find(name) for name in (*stack.pages(), *stack.embedded)}
    running = {name: one.pid for name, one in found.items() if one is not None}
    owners: dict[str, set[str]] = {}
    for name, pid in running.items():
        with suppress(FileNotFoundError):  # it has ended meanwhile
            uid = Path(f"/proc/{pid}").stat().st_uid
            owners.setdefault(system_user(uid), set()).add(users.principal(name))
    wrong = {user: who for user, who in owners.items() if user == "root" or len(who) > 1}
    if not wrong:
        return True, f"{len(running)} programs as {len(owners)} system users, none of them root", ""
    each = "; ".join(f"{user}: {', '.join(sorted(who))}" for user, who in wrong.items())
    detail = f"who takes over one of these reads the others' secrets: {each}; a user each: {WAY_OUT}"
    return not stack.secure, detail, WAY_OUT


def _listeners(stack: Stack, name: str) -> set[tuple[str, int]]:
    """Where a program and its children take connections; nothing where it does not run."""
    running, there = stack.runner.find(name), listening()
    pids = () if running is None else processes.tree(running.pid)
    return {there[socket] for pid in pids for socket in sockets_of(pid) if socket in there}


def _reach(places: set[tuple[str, int]]) -> str:
    beyond = sorted({address for address, _ in places if not ip_address(address).is_loopback})
    return f"BEYOND loopback at {', '.join(beyond)}" if beyond else "loopback only"


def _copies(addresses: Endpoints, terms: Kafka) -> Answer:
    """A topic with fewer copies than the settings say loses records with a broker."""
    wrong = topic_faults(addresses.kafka_bootstrap, terms.prefix, terms)
    return not wrong, "\n".join(wrong) or "as the settings say, all in sync", "as each line says"


def _queue(addresses: Endpoints) -> Answer:
    """Messages that the broker acknowledged to a vehicle and then dropped are lost."""
    figures = broker_figures(*addresses.brokers)
    detail = f"{figures.queued:,} messages wait, {figures.dropped:,} dropped since its start"
    step = "see that the bridge runs and keeps up; count the loss: odograph audit"
    return figures.dropped == 0, detail, step


def _hot(addresses: Endpoints, terms: Watch) -> Answer:
    """A partition far behind the others of its topic holds up what is in it, and no more workers help."""
    skews, keys = partitions(addresses.db_owner_url)
    hot = [str(skew) for skew in skews if skew.hot(terms)]
    most = f", the most of {keys[0].vehicle_id}: {100 * keys[0].share:.0f} %" if keys else ""
    step = f"see its top keys (odograph status){most}; one vehicle that floods: ODOGRAPH_BRIDGE_VEHICLE_RATE"
    return not hot, "; ".join(hot) or "none is hot", step


def _sessions(addresses: Endpoints) -> str | Answer:
    """What the broker held for a bridge may be gone with the session."""
    losses = probes.session_losses(addresses.db_ingest_url, RECENT_H)
    if not losses:
        return f"never lost in the last {RECENT_H} h"
    at, what = losses[-1]
    last = f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC: {what}"
    step = "what went with it: odograph audit; who may use the bridge's client id: a login and an access list"
    return False, f"lost {len(losses)} times in {RECENT_H} h, last at {last}", step


def _tasks(addresses: Endpoints) -> Answer:
    failing = probes.failing_tasks(addresses.db_ingest_url)
    step = "see to what the error names (logs: jobs, maintenance); each task is tried again by itself"
    return not failing, "\n".join(failing) or "none fails", step


def _none_of(lacking: list[str]) -> Answer:
    return not lacking, f"missing: {', '.join(lacking)}" if lacking else "all there", "odograph up"


def report(found: Sequence[Finding], as_json: bool) -> str:
    """Each finding in a line; the next step under what is wrong."""
    if as_json:
        return json.dumps([asdict(finding) for finding in found], indent=1) + "\n"
    made = table("", "examined", "finding")
    for finding in found:
        mark = "[green]ok[/]" if finding.fine else "[red]wrong[/]"
        text = finding.detail if finding.fine else f"{finding.detail}\n-> {finding.next_step}"
        made.add_row(mark, finding.name, escape(text))
    wrong = sum(not finding.fine for finding in found)
    return rendered(made, f"{wrong} of {len(found)} wrong" if wrong else f"all {len(found)} fine")
