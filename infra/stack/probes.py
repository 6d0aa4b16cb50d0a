"""Protocol round trips: what it means that a service answers."""

import json
import socket
import ssl
import struct
import threading
import uuid
from contextlib import closing, suppress
from datetime import datetime
from functools import partial
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPSConnection

import paho.mqtt.client as mqtt
import psycopg
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.reasoncodes import ReasonCode

from infra.clients import kafka
from infra.clients.db import asked, connected, session, sql_of
from infra.clients.mqtt_broker import MqttBroker
from infra.contract.errors import ServiceError, raised_as
from infra.stack.service import HOST, port_is_free

SQL = sql_of(__file__)
TIMEOUT_S = 3.0
RPC_FAILED = b"\x05"
STRANGER_S = 1.0  # who is not sent away so long after it came is taken


def mqtt_echo(broker: MqttBroker) -> str:
    """Publish a message at QoS 1 and get it back; raises ServiceError."""
    topic = f"odograph-probe/{uuid.uuid4().hex}"
    done = threading.Event()
    client = mqtt.Client(CallbackAPIVersion.VERSION2, client_id=topic.replace("/", "-"))
    broker.log_in(client)
    refused: list[str] = []

    def connected(_client: mqtt.Client, _data: object, _flags: object, code: ReasonCode, *_: object) -> None:
        if code.is_failure:
            refused.append(str(code))
            done.set()
        else:
            client.subscribe(topic, qos=1)

    client.on_connect = connected
    client.on_subscribe = lambda c, *_: c.publish(topic, b"echo", qos=1)
    client.on_message = lambda *_: done.set()
    try:
        client.connect(broker.host, broker.port, keepalive=10)
    except OSError as error:
        raise ServiceError(f"MQTT: {broker.trouble(error)}") from error
    client.loop_start()
    answered = done.wait(TIMEOUT_S)
    client.disconnect()
    client.loop_stop()
    if refused:
        raise ServiceError(f"{broker} refuses us: {refused[0]}; user and password stand in ODOGRAPH_MQTT_URL")
    if not answered:
        raise ServiceError(f"{broker}: no echo within {TIMEOUT_S:g} s")
    return f"{broker} echoes"


def tls_server(port: int, ca: str, host: str = HOST, *, asks: bool = True) -> str:
    """Its version of TLS; ``asks``: it takes nobody without a certificate.

    Raises ServiceError where it shows no certificate of ``ca``, or takes a stranger.
    """
    with raised_as(ServiceError, f"port {port}: no TLS by our authority", OSError):
        context = ssl.create_default_context(cafile=ca)
        with (
            socket.create_connection((host, port), TIMEOUT_S) as plain,
            context.wrap_socket(plain, server_hostname=host) as secure,
        ):
            version = secure.version() or ""
            secure.settimeout(STRANGER_S)
            try:
                taken = asks and secure.recv(1) != b""
            except TimeoutError:
                taken = True  # nobody sends it away
            except (ssl.SSLError, ConnectionError):  # TLS 1.3 tells of it after the handshake
                taken = False
    if taken:
        raise ServiceError(f"port {port} takes clients without a certificate")
    return version


def rejects_rpc(port: int) -> bool:
    """Whether a port of Spark's answers a stranger's call with a question for who it is, or not at all."""
    body = b"\n"
    head = struct.pack(">qbqi", 21 + len(body), 3, 1, len(body))  # length, type, id, length of the body
    answer = b""
    with suppress(OSError), socket.create_connection((HOST, port), STRANGER_S) as stranger:
        stranger.sendall(head + body)
        answer = stranger.recv(4096)
    return answer[8:9] != RPC_FAILED or b"SaslMessage" in answer


def listens(port: int) -> str:
    """Of a server whose protocol we do not speak: it takes connections. Raises ServiceError."""
    if port_is_free(port):
        raise ServiceError(f"nothing listens on port {port} yet")
    return f"port {port} is taken in"


def kafka_cluster(bootstrap: str, least: int = 1) -> str:
    """Ask for the cluster's brokers; raises ServiceError unless so many are in service."""
    with kafka.service_errors(f"Kafka {bootstrap}"):
        client = kafka.admin(bootstrap)  # its end would end the request
        cluster = client.describe_cluster(request_timeout=TIMEOUT_S).result(TIMEOUT_S + 1)
    servers, *tls = bootstrap.split(kafka.CA)
    if len(cluster.nodes) < least:
        raise ServiceError(f"Kafka {servers}: {len(cluster.nodes) or 'no'} broker in service yet")
    return f"{servers}, {len(cluster.nodes)} broker{', TLS' if tls else ''}"


_asked = partial(asked, service="PostgreSQL", connect_timeout_s=int(TIMEOUT_S), autocommit=True)


def database(url: str) -> str:
    """Run a query and ask for TimescaleDB's version; raises ServiceError."""
    with connected(url, **_asked.keywords) as connection:
        row = connection.execute(SQL["timescaledb"]).fetchone()
        version = connection.info.server_version // 10_000
    if row is None:
        raise ServiceError("PostgreSQL answers, but TimescaleDB is not installed there")
    return f"PostgreSQL {version}, TimescaleDB {row[0]}"


def database_tls(url: str) -> str:
    """The version of TLS at an address; raises ServiceError where it takes plain connections too."""
    if not (versions := _asked(url, SQL["tls"])):
        raise ServiceError("sessions are not encrypted")
    plain = partial(session, url, sslmode="disable", connect_timeout_s=int(TIMEOUT_S))
    with suppress(psycopg.OperationalError), plain():
        raise ServiceError("plain connections are taken too")
    return str(versions[0][0])


def failing_tasks(url: str) -> list[str]:
    """Periodic tasks whose last run failed, a line each; raises ServiceError."""
    found = _asked(url, SQL["failing_tasks"])
    return [f"{p}/{task}: {error} (failing since {at} UTC, {n} failures)" for p, task, error, n, at in found]


def session_losses(url: str, hours: int) -> list[tuple[datetime, str]]:
    """Sessions of bridges lost in the last ``hours``, oldest first: when, and why; raises ServiceError."""
    return _asked(url, SQL["session_losses"], (hours,))


def page(where: int | str) -> str:
    """The address of a process's page.

    ``where``: a port of this machine, or ``host:port[?ca=FILE]``, with the authority's file where it is TLS.
    """
    place, tls, _ = (where if isinstance(where, str) else f"{HOST}:{where}").partition(kafka.CA)
    return f"http{'s' if tls else ''}://{place}"


def readyz(where: int | str) -> str | None:
    """None when the process there (as of ``page``) is ready, else why not."""
    return readiness(where)[0]


def readiness(where: int | str) -> tuple[str | None, str | None]:
    """Why the process there is not ready, None when it is; and what it remarks when it is."""
    try:
        status, said = got(where, "/readyz")
    except OSError as error:
        return f"no answer on {str(where).partition(kafka.CA)[0]} ({error})", None
    if status != HTTPStatus.OK:
        return _reasons(said), None
    return None, _reasons(said) if said.strip() not in (b"", b"{}", b"ok") else None


def foreign_host(where: int | str) -> int:
    """The status of an answer under a host name that leads to us and is not ours; raises ServiceError."""
    with raised_as(ServiceError, f"{page(where)} does not answer", OSError):
        return got(where, "/livez", "rebound.invalid")[0]


def got(where: int | str, path: str, host: str = "") -> tuple[int, bytes]:
    """Status and body of what is asked of the process there (as of ``page``), by no proxy; raises OSError.

    ``host``: the name under which it is asked, if not its address.
    """
    place, ca = page(where).partition("://")[2], str(where).partition(kafka.CA)[2]
    client = HTTPConnection(place, timeout=TIMEOUT_S)
    if ca:
        client = HTTPSConnection(place, timeout=TIMEOUT_S, context=ssl.create_default_context(cafile=ca))
    try:
        with closing(client):
            client.request("GET", path, headers={"Host": host} if host else {})
            answer = client.getresponse()
            return answer.status, answer.read()
    except HTTPException as error:
        raise ConnectionError(f"no HTTP: {error!r}") from error


def _reasons(body: bytes) -> str:
    try:
        said = json.loads(body)
    except ValueError:
        return body.decode(errors="replace").strip()[:200] or "not ready"
    if not isinstance(said, dict):
        return str(said)[:200]
    return "; ".join(f"{name}: {reason}" for name, reason in said.items()) or "not ready"


def metrics(where: int | str) -> str:
    """Prometheus' text of the process there; nothing where it does not answer."""
    with suppress(OSError):
        status, text = got(where, "/metrics")
        return text.decode() if status == HTTPStatus.OK else ""
    return ""  # readiness says what is wrong with it
