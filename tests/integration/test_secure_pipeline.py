"""`odograph up --secure`, as a person runs it: whole pipeline, servers as strangers find them, policy."""

from __future__ import annotations

import http.client
import json
import os
import re
import socket
import ssl
import struct
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import paho.mqtt.client as mqtt
import psycopg
import pytest
from paho.mqtt.enums import CallbackAPIVersion

from infra.clients.kafka import LogEnds
from infra.contract.errors import ServiceError
from infra.contract.topics import kafka_topic, mqtt_topic
from infra.settings.settings import Endpoints, Settings, endpoints, load
from infra.sql import queries
from infra.stack import probes, processes
from infra.stack.access import devices, users
from infra.stack.access.identity import SERVICES as SERVICES_AUTHORITY
from infra.stack.access.identity import Authority
from infra.stack.downloads.fetch import fetch_all
from infra.stack.processes import guarded
from infra.stack.service import free_port
from infra.stack.stack import SERVICES, Stack
from infra.stack.supervisor import SUPERVISOR
from load_tests import policy_trial
from load_tests.drills.poison.gates import status
from load_tests.mqtt_flood import vehicle_id
from stream_jobs.audit.collect import current_ledger
from stream_jobs.audit.ledger import Ledger
from stream_jobs.audit_log.refusals import NOBODY
from tests import forked
from tests.integration.killing import kill
from tests.support import end_at_once, eventually

pytestmark = [pytest.mark.integration, pytest.mark.timeout(400)]
NAME, THIEF = "fleet.example.org", vehicle_id(7)
REDIRECT = "ODOGRAPH_DASHBOARD_REDIRECT_PORT"
VARIABLES = {
    "ODOGRAPH_KAFKA_HEAP_MB": "256",
    "ODOGRAPH_JOBS_ARCHIVE_TRIGGER_S": "2",
    "ODOGRAPH_DASHBOARD_HOSTS": NAME,
    "ODOGRAPH_REGION_NAME": policy_trial.HERE,
}


@dataclass(frozen=True)
class Site:
    """A home whose pipeline runs; what `odograph up --secure` printed."""

    home: Path
    printed: str

    def odograph(self, *arguments: str, timeout_s: float = 180) -> subprocess.CompletedProcess[str]:
        return odograph(self.home, *arguments, timeout_s=timeout_s)

    @property
    def settings(self) -> Settings:
        return load(paths={"home": str(self.home)}, region={"name": policy_trial.HERE})

    @property
    def where(self) -> Endpoints:
        return endpoints(self.settings)

    @property
    def port(self) -> int:
        return self.where.http_ports["dashboard"]

    def trust(self, kind: str = "services") -> ssl.SSLContext:
        return ssl.create_default_context(cafile=self.home / "ca" / kind / "ca.pem")


def odograph(home: Path, *arguments: str, timeout_s: float = 180) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, **VARIABLES, "ODOGRAPH_PATHS_HOME": str(home)}
    return forked.run(arguments, env, timeout_s)


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    home = Path(tempfile.mkdtemp(prefix="odograph-up-secure-"))
    VARIABLES[REDIRECT] = str(free_port())  # not at import: by now another one has that of then
    fetch_all(load(paths={"home": str(home)}).paths.cache, SERVICES)
    with guarded(home, remove=True):
        done = odograph(home, "up", "--secure", "--wait-s", "280", timeout_s=320)
        assert done.returncode == 0, done.stderr
        yield Site(home, done.stdout)
        end_at_once(home)


@pytest.mark.usefixtures("refused")
def test_a_fleet_with_a_certificate_each_reaches_windows_archive_and_alerts_and_nothing_is_missing(
    site: Site,
) -> None:
    fleet = ("-c", "20", "--rate", "60", "--duration", "8s", "--fault", "crash=1", "--seed", "3")
    done = site.odograph("simulate", *fleet, "--connections", "per-vehicle", "--json")
    assert done.returncode == 0, done.stderr
    sent = json.loads(done.stdout)["messages"]
    assert sent["acked"] == sent["sent"] > 400
    with LogEnds(site.where.kafka_bootstrap, site.settings.kafka.prefix) as ends:

        def balanced() -> Ledger | None:
            found = current_ledger(site.home, site.where, ends)
            return found if found.residual == 0 and found.counted > 400 else None

        ledger = eventually(balanced, 60, "a balanced ledger")
    assert ledger is not None
    assert (ledger.dead, ledger.archived) == (0, ledger.appended)
    with psycopg.connect(site.where.db_ingest_url) as connection:
        query = "SELECT count(*) FROM odograph.crash_record WHERE signature = 'valid'"
        eventually(lambda: connection.execute(query).fetchone() == (1,), 60, "the crash record, signed")
        query = "SELECT count(*) FROM odograph.alert"
        eventually(lambda: connection.execute(query).fetchone() != (0,), 60, "alerts")


def test_the_database_takes_no_plain_connection_and_no_other_server_is_taken_for_it(site: Site) -> None:
    url = Stack(site.settings, print).superuser_url()
    sessions = "SELECT usename, ssl FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE usename LIKE %s"
    with psycopg.connect(url) as connection:
        found = connection.execute(sessions, ("odograph_%",)).fetchall()
    programs = ("downlink", "jobs", "instant", "events", "maintenance", "watch", "dashboard")
    assert {f"odograph_{name}" for name in programs} <= {user for user, _ in found}
    assert {"odograph_owner", "odograph_ingest"} & {user for user, _ in found} == set()
    assert {encrypted for _, encrypted in found} == {True}
    urls = (site.where.db_owner_url, site.where.db_ingest_url, site.where.db_dashboard_url)
    assert [
        u for u in urls if f"?sslmode=verify-full&sslrootcert={site.home}/ca/services/ca.pem" not in u
    ] == []
    for url in urls:
        with pytest.raises(psycopg.OperationalError, match=r"no pg_hba\.conf entry .* no encryption"):
            psycopg.connect(url, sslmode="disable")
    with pytest.raises(psycopg.OperationalError, match="certificate verify failed"):
        psycopg.connect(urls[0], sslrootcert=str(site.home / "ca" / "devices" / "ca.pem"))
    with pytest.raises(psycopg.OperationalError, match=r'does not match host name "other\.example\.org"'):
        psycopg.connect(urls[0], host="other.example.org", hostaddr="127.0.0.1")


def asked(
    site: Site, path: str, name: str, shown: str = "", headers: dict[str, str] | None = None
) -> http.client.HTTPResponse:
    """What the dashboard answers who has come by ``name``, and names ``shown`` in the request."""
    connection = http.client.HTTPSConnection(name, site.port, timeout=20)
    plain = socket.create_connection(("127.0.0.1", site.port), 20)
    connection.sock = site.trust().wrap_socket(plain, server_hostname=name)
    with closing(connection):
        connection.request("GET", path, headers={"Host": shown or name, **(headers or {})})
        with connection.getresponse() as answer:
            return answer


@pytest.fixture(scope="module")
def refused(site: Site) -> dict[str, object]:
    """What a program, a stranger and a vehicle try that is none of theirs, and what became of it; the audit
    log has it within a minute, while the other tests run.
    """
    alerts = kafka_topic(site.settings.kafka.prefix, "alerts")
    as_bridge = endpoints(site.settings, ("kafka_bootstrap",), "bridge").kafka_bootstrap
    written = policy_trial.kafka_written(as_bridge, [alerts])
    port = json.loads((site.home / "ports.json").read_text())["mosquitto-devices"]
    with (
        pytest.raises(OSError, match="certificate required"),
        socket.create_connection(("127.0.0.1", port), 20) as plain,
        site.trust().wrap_socket(plain, server_hostname="127.0.0.1") as stranger,
    ):
        stranger.recv(1)
    pages = [
        asked(site, "/livez", "127.0.0.1", shown="evil.example.org").status,
        status(site.where.http_ports["events"], "GET /metrics", "Host: evil.example.org"),
    ]
    stack = Stack(site.settings, print)
    thief = devices.broker_of(site.where, site.home, devices.enrol(stack, THIEF))
    topics = [mqtt_topic(site.settings.mqtt.root, who, "alert") for who in (THIEF, vehicle_id(1))]
    bridge = endpoints(site.settings, ("mqtt_host",), "bridge").brokers[0]
    for name, broker, others in ((THIEF, thief, topics + topics[1:]), ("forger", bridge, topics[1:])):
        client = mqtt.Client(CallbackAPIVersion.VERSION2, name)
        broker.log_in(client)
        client.connect(broker.host, broker.port)
        client.loop_start()
        for topic in others:
            client.publish(topic, b"forged", qos=1).wait_for_publish(20)
        client.disconnect()
        client.loop_stop()
    return {"record": written, "page of a stranger": pages}


def test_the_dashboard_speaks_tls_only_under_its_own_names_and_its_cookies_are_for_tls(site: Site) -> None:
    assert site.printed == f"https://127.0.0.1:{site.port}\n"
    page = asked(site, "/", "127.0.0.1")
    assert (page.status, page.headers["Strict-Transport-Security"]) == (200, None)  # of the reader's machine
    page = asked(site, "/_stcore/health", NAME)
    assert (page.status, page.headers["Strict-Transport-Security"]) == (200, "max-age=31536000")
    cookies = page.headers.get_all("Set-Cookie", [])
    assert cookies
    assert [cookie for cookie in cookies if not re.search("; Secure(;|$)", cookie)] == []
    upgrade = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13"}
    upgrade["Sec-WebSocket-Key"] = "AAAAAAAAAAAAAAAAAAAAAA=="
    origins = {f"https://{NAME}": 101, "https://evil.example.org": 403}
    opened = {
        o: asked(site, "/_stcore/stream", NAME, headers=upgrade | {"Origin": o}).status for o in origins
    }
    assert opened == origins
    assert asked(site, "/readyz", "127.0.0.1", shown="evil.example.org").status == 403
    with pytest.raises(ssl.SSLCertVerificationError, match=r"not valid for 'evil\.example\.org'"):
        asked(site, "/", "evil.example.org")
    plain = http.client.HTTPConnection("127.0.0.1", site.port, timeout=20)
    plain.request("GET", "/")
    with closing(plain), pytest.raises((http.client.RemoteDisconnected, ConnectionResetError)):
        plain.getresponse()
    with closing(http.client.HTTPConnection("127.0.0.1", int(VARIABLES[REDIRECT]), timeout=20)) as plain:
        plain.request("GET", "/trips?trip=1", headers={"Host": NAME})
        led = plain.getresponse()
    assert (led.status, led.headers["Location"]) == (308, f"https://{NAME}:{site.port}/trips?trip=1")


def test_doctor_tries_each_hop_and_says_what_is_on(site: Site) -> None:
    done = site.odograph("doctor", "--json")
    findings: dict[str, dict[str, Any]] = {f["name"]: f for f in json.loads(done.stdout)}
    assert [f for f in findings.values() if not f["fine"]] == []
    told = {
        name.removeprefix("hop: "): f["detail"] for name, f in findings.items() if name.startswith("hop: ")
    }
    on = {name for name, detail in told.items() if "TLS on (TLSv1.3)" in detail}
    assert told.keys() - on == {"Spark's own ports", "health pages", "users of programs"}
    assert told["users of programs"] == "11 programs as 11 system users, none of them root"
    assert {name for name in on if "a client without one is refused" in told[name]} == {
        "vehicle to broker", "programs to broker", "programs to Kafka",
    }  # fmt: skip
    assert told["vehicle to broker"].endswith("refused publishes in the audit log")
    assert "plain connections refused" in told["programs to database"]
    assert "plain http refused, host names checked" in told["browser to dashboard"]
    assert re.fullmatch(r"(?:[5-9]|1\d) ports, loopback only; TLS off, login on", told["Spark's own ports"])
    ca = str(site.home / "ca" / "services" / "ca.pem")
    with pytest.raises(ServiceError, match="takes clients without a certificate"):
        probes.tls_server(site.port, ca)
    with pytest.raises(ServiceError, match="no TLS by our authority"):
        probes.tls_server(site.where.http_ports["bridge"], ca)
    with pytest.raises(ServiceError, match="no TLS by our authority"):
        probes.tls_server(site.port, str(site.home / "ca" / "devices" / "ca.pem"))
    assert told["health pages"].startswith("7 pages, loopback only; TLS off, login off")


def test_each_program_is_a_system_user_of_its_own_and_looks_into_no_other(site: Site) -> None:
    stack = Stack(site.settings, print)
    found = {name: stack.runner.find(name) for name in (*stack.pages(), *SERVICES)}
    pids = {name: one.pid for name, one in found.items() if one is not None}
    owners = {n: {Path(f"/proc/{p}").stat().st_uid for p in processes.tree(pid)} for n, pid in pids.items()}
    assert {name: len(uids) for name, uids in owners.items()} == dict.fromkeys(found, 1)
    assert len(set.union({0}, *owners.values())) == 1 + len(found) == 12
    inner = [Path(f"/proc/{pid}/{name}") for pid in pids.values() for name in ("environ", "mem", "root")]
    for who in stack.pages():
        seen = policy_trial.file_let(who, policy_trial.READABLE, inner)
        assert [
            path for path, let in zip(inner, seen, strict=True) if let and path.parts[2] != str(pids[who])
        ] == []
        environment = Path(f"/proc/{pids[who]}/environ").read_text().split("\0")
        named = [text.partition("=") for text in environment if text.startswith("ODOGRAPH")]
        assert named == [("ODOGRAPH_PATHS_HOME", "=", str(site.home / "programs" / who))]


def test_roots_commands_go_nowhere_by_a_link_that_a_program_put_into_a_folder_of_its_own(
    site: Site, tmp_path: Path
) -> None:
    queries.note(site.where.db_ingest_url, "notice sent", None, "to be anchored")
    place, target = site.home / "anchors" / "audit", tmp_path / "target"
    target.mkdir()
    user, groups = users.user_of("maintenance"), users.groups_of("maintenance")
    policy_trial.run_as(user, groups, 'mkdir -p "$1"; mv "$1" "$1.aside"; ln -s "$2" "$1"', [place, target])
    assert place.is_dir()
    assert site.odograph("audit-log", "--anchor").returncode == 1
    assert [*target.iterdir()] == []
    policy_trial.run_as(user, groups, 'rm "$1"; mv "$1.aside" "$1"', [place])
    assert site.odograph("audit-log", "--anchor").returncode == 0
    assert [*place.glob("*.json")] != []


def shown(site: Site, port: int, hello: bytes = b"") -> int:
    """The serial number of a server's certificate; ``hello``: what asks it for TLS."""
    with socket.create_connection(("127.0.0.1", port), 20) as plain:
        if hello:
            plain.sendall(hello)
            assert plain.recv(1) == b"S"
        with site.trust().wrap_socket(plain, server_hostname="127.0.0.1") as connection:
            return int(str((connection.getpeercert() or {})["serialNumber"]), 16)


def test_a_new_certificate_is_shown_by_database_and_broker_without_a_restart(site: Site) -> None:
    services = Authority(site.home, SERVICES_AUTHORITY)
    stack = Stack(site.settings, print)
    before = [stack.runner.find(name) for name in SERVICES]
    services.revoke(services.issued("server"))
    stack.renew_identities()
    new = services.issued("server")[-1].serial
    ports, ask_for_tls = stack.ports(), struct.pack(">ii", 8, 80877103)
    eventually(lambda: shown(site, ports["postgres"], ask_for_tls) == new, 20, "the database's")
    eventually(lambda: shown(site, ports["mosquitto-devices"]) == new, 20, "the broker's")
    assert [stack.runner.find(name) for name in SERVICES] == before
    with psycopg.connect(site.where.db_ingest_url) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_what_brokers_and_programs_refuse_is_in_the_audit_log(site: Site, refused: dict[str, object]) -> None:
    alerts = kafka_topic(site.settings.kafka.prefix, "alerts")
    assert refused == {"record": {alerts: False}, "page of a stranger": [403, 403]}
    query = (
        "SELECT actor, action, split_part(detail, ';', 1) FROM serving.audit_log WHERE action ~ '^refused by'"
    )
    wanted = {
        ("bridge", "refused by kafka", f"write topic {alerts}"),
        (NOBODY, "refused by mosquitto", "connection: peer did not return a certificate"),
        ("forger", "refused by mosquitto", f"publish {site.settings.mqtt.root}/{{other}}/alert"),
        (NOBODY, "refused by dashboard", "request: host evil.example.org origin -"),
        (NOBODY, "refused by events", "request: host evil.example.org origin -"),
    }
    of_thief = {f"publish {site.settings.mqtt.root}/{{{who}}}/alert" for who in ("me", "other")}
    with psycopg.connect(site.where.db_ingest_url, autocommit=True) as connection:
        eventually(lambda: wanted <= {*connection.execute(query).fetchall()}, 180, "entries of the minute")
        own = f"{query} AND vehicle_id = %s"
        eventually(
            lambda: {row[2] for row in connection.execute(own, (THIEF,)).fetchall()} == of_thief,
            180, "entries of the vehicle",
        )  # fmt: skip


def test_the_services_do_what_the_policy_says_and_nothing_else(site: Site) -> None:
    stack = Stack(site.settings, print)
    kill(site.home, SUPERVISOR, *stack.pages())  # programs would hear and write too
    rows = policy_trial.trial_at(stack, site.where)
    allowed = sum(row[3] for row in rows)
    assert policy_trial.differences(rows) == []
    assert 600 < allowed < len(rows) - allowed
