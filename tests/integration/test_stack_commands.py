"""The commands up, status, doctor, config and down, as a person runs them."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.stack.processes import guarded
from infra.stack.stack import Stack
from tests.support import odograph_command

pytestmark = [pytest.mark.integration, pytest.mark.timeout(400)]

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def home(stack: Stack) -> Iterator[Path]:
    """A home of its own that `odograph up --services-only` has filled."""
    place = Path(tempfile.mkdtemp(prefix="odograph-commands-"))
    with guarded(place, remove=True):
        first = odograph(place, "up", "--services-only")
        assert first.returncode == 0, first.stderr
        assert "applied 001_tables.sql" in first.stderr
        yield place


def odograph(home: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "ODOGRAPH_PATHS_HOME": str(home), "ODOGRAPH_KAFKA_HEAP_MB": "256", **variables}
    command = [*odograph_command(), *arguments]
    return subprocess.run(
        command, env=env, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )


def test_up_twice_is_fine(home: Path) -> None:
    again = odograph(home, "up", "--services-only")
    assert again.returncode == 0
    assert again.stdout == ""
    assert again.stderr.count("runs already") == 3


def test_status_shows_each_service_with_address_pid_and_memory(home: Path) -> None:
    parts = {part["name"]: part for part in json.loads(odograph(home, "status", "--json").stdout)["parts"]}
    ports = json.loads((home / "ports.json").read_text())
    for name in ("postgres", "mosquitto", "kafka"):
        assert parts[name]["state"] == "ready"
        assert parts[name]["address"] == f"127.0.0.1:{ports[name]}"
        assert parts[name]["pid"] == int((home / "run" / f"{name}.pid").read_text().split()[0])
        assert parts[name]["memory_mb"] > 1
    assert parts["bridge"]["state"] == "stopped"


def test_status_counts_the_records_of_each_topic(home: Path) -> None:
    assert json.loads(odograph(home, "status", "--json").stdout)["topics"]["odograph.telemetry"] == 0


def test_doctor_names_what_is_wrong_and_the_next_step(home: Path) -> None:
    found = odograph(home, "doctor", "--json")
    findings = {finding["name"]: finding for finding in json.loads(found.stdout)}
    assert found.returncode == 1
    assert {name for name, finding in findings.items() if not finding["fine"]} == {
        "supervisor",
        "bridge",
        "downlink",
        "jobs",
        "instant",
        "events",
        "maintenance",
        "dashboard",
        "watch",
    }
    assert findings["bridge"]["next_step"] == "start it: odograph up"
    assert findings["database as ingest"]["detail"].startswith("PostgreSQL 17, TimescaleDB")


def test_config_shows_what_is_in_force_and_no_secret(home: Path) -> None:
    shown = odograph(home, "config", "--json", ODOGRAPH_DB_URL="postgresql://me:s3cret@db/odograph")
    values = json.loads(shown.stdout)
    assert values["ODOGRAPH_KAFKA_HEAP_MB"] == {"value": "256", "source": "environment"}
    assert "s3cret" not in shown.stdout + shown.stderr


def test_a_wrong_setting_is_one_line_and_exit_code_2(home: Path) -> None:
    wrong = odograph(home, "status", ODOGRAPH_KAFKA_HEAP_MB="much")
    assert wrong.returncode == 2
    assert len(wrong.stderr.splitlines()) == 1
    assert "ODOGRAPH_KAFKA_HEAP_MB" in wrong.stderr


def test_down_stops_every_service_and_a_second_down_is_fine(home: Path) -> None:
    assert odograph(home, "down").stderr.strip() == "stopped: kafka, mosquitto, postgres"
    assert odograph(home, "down").stderr.strip() == "nothing ran"
    assert odograph(home, "status").returncode == 1
    assert odograph(home, "up", "--services-only").returncode == 0
