from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request

import pytest
from prometheus_client import CollectorRegistry, Counter
from structlog.testing import capture_logs

from infra.clients import health
from infra.clients.health import Check, HealthServer, Listen
from infra.contract.errors import ServiceError
from infra.stack.probes import readiness as readiness_of
from load_tests.drills.poison.gates import status

HOSTS = ("localhost", "10.1.2.3", "[fd00::1]", "jobs", "evil")


def get(server: HealthServer, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{server.port}{path}", timeout=5) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def serve(checks: dict[str, Check] | None = None) -> HealthServer:
    return HealthServer(Listen(), checks or {}, CollectorRegistry())


def test_a_free_port_is_taken_when_none_is_given() -> None:
    with serve() as server:
        assert server.port > 0


def test_who_connects_and_asks_nothing_is_sent_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health._Handler, "timeout", 0.05)
    with serve() as server, socket.create_connection(("127.0.0.1", server.port), 5) as silent:
        assert silent.recv(1) == b""


def test_livez_is_200_even_when_not_ready() -> None:
    with serve({"kafka": lambda: "away"}) as server:
        assert get(server, "/livez") == (200, "ok\n")


def test_readyz_is_200_without_reasons_when_all_checks_hold() -> None:
    with serve({"kafka": lambda: None, "mqtt": lambda: None}) as server:
        assert get(server, "/readyz") == (200, "{}\n")


def test_readyz_is_503_and_names_each_failing_check_with_its_reason() -> None:
    with serve({"kafka": lambda: "no broker answers", "mqtt": lambda: None}) as server:
        status, body = get(server, "/readyz")
    assert (status, json.loads(body)) == (503, {"kafka": "no broker answers"})


def test_a_check_that_raises_is_not_ready() -> None:
    def broken() -> str | None:
        raise ValueError("no idea")

    with serve({"kafka": broken}) as server:
        status, body = get(server, "/readyz")
    assert (status, json.loads(body)) == (503, {"kafka": "ValueError: no idea"})


def test_metrics_shows_the_registry() -> None:
    registry = CollectorRegistry()
    Counter("odograph_things", "Things.", registry=registry).inc(3)
    with HealthServer(Listen(), {}, registry) as server:
        status, body = get(server, "/metrics?x=1")
    assert status == 200
    assert "odograph_things_total 3.0" in body


def test_another_path_is_404() -> None:
    with serve() as server:
        assert get(server, "/")[0] == 404


def test_a_taken_port_is_named_in_the_error() -> None:
    with serve() as first, pytest.raises(ServiceError, match=str(first.port)):
        HealthServer(Listen(first.port), {}, CollectorRegistry()).__enter__()


def test_status_hears_why_a_process_is_not_ready_and_what_a_ready_one_remarks_whatever_proxy_there_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in {"http_proxy": "http://127.0.0.1:9", "no_proxy": "", "NO_PROXY": ""}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(urllib.request, "_opener", None)  # urlopen's keeps what it first found
    remarks: dict[str, Check] = {"degraded": lambda: "user_sql.x: division by zero"}
    with HealthServer(Listen(), {}, CollectorRegistry(), remarks) as server:
        assert readiness_of(server.port) == (None, "degraded: user_sql.x: division by zero")
    with serve({"kafka": lambda: "away"}) as server:
        assert readiness_of(server.port) == ("kafka: away", None)
    with serve() as server:
        assert readiness_of(server.port) == (None, None)


@pytest.mark.parametrize("headers", [[], ["Host: evil:1"], ["Host: 127.0.0.1", "Origin: http://evil"]])
def test_a_health_page_is_for_loopback_and_no_site_under_a_rebound_name(headers: list[str]) -> None:
    with serve() as server, capture_logs() as told:
        assert status(server.port, "GET /metrics", *headers) == 403
        assert status(server.port, "GET /metrics", f"Host: localhost:{server.port}") == 200
    named = {key: value for key, _, value in (line.partition(": ") for line in headers)}
    what = f"request: host {named.get('Host', '-')} origin {named.get('Origin', '-')}"
    assert [(one["event"], one["what"]) for one in told] == [("refused", what)]


@pytest.mark.parametrize("address", ["0.0.0.0", "::"])
def test_a_page_for_all_answers_under_addresses_and_the_names_of_the_settings(address: str) -> None:
    with HealthServer(Listen(0, address, ("jobs",)), {}, CollectorRegistry()) as server:
        told = {host: status(server.port, "GET /livez", f"Host: {host}:1") for host in HOSTS}
    assert told == dict(zip(HOSTS, (200, 200, 200, 200, 403), strict=True))


STOPPED = """
import signal
from infra.clients.health import stopped_by_signals
with stopped_by_signals(True, lambda: print("told")) as stop:
    signal.raise_signal(signal.SIGINT)
    signal.raise_signal(signal.SIGTERM)
    print(stop.is_set(), flush=True)
    signal.raise_signal(signal.SIGINT)
    print("not reached", flush=True)
"""


def test_ctrl_c_with_a_parents_sigterm_is_one_order_to_stop_and_a_second_ctrl_c_ends_at_once() -> None:
    done = subprocess.run([sys.executable, "-c", STOPPED], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (-signal.SIGINT, "told\nTrue\n")
