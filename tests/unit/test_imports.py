"""Who may import what: a library that talks to a service has one door in each package."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("edge_simulator", "bridge", "stream_jobs", "dashboard", "infra")
DOORS = {
    "paho": (
        "edge_simulator/sending/publisher.py",
        "bridge/mqtt_source.py",
        "bridge/mqtt_session.py",  # what a connection needs; mqtt_source uses it
        "bridge/downlink/mqtt_out.py",
        "infra/stack/",
        "infra/mqtt_broker.py",  # the address, login and TLS that all of these connect with
    ),
    "confluent_kafka": (
        "bridge/kafka_sink.py",
        "bridge/dead_letters/kafka_log.py",  # a reader, for the command line
        "bridge/downlink/feed.py",  # reads alerts, commits per destination; writes dead deliveries
        "bridge/status_log.py",  # tails the compacted topic status, for the watch over silent vehicles
        "stream_jobs/event_kafka.py",
        "stream_jobs/topic_writer.py",  # findings within the batch, newest states, dead letters
        "infra/stack/",
        "infra/trace/log_reader.py",
        "infra/replay/log.py",  # stored records into a run's topics; stretches out of the log
    ),
    "psycopg": (
        "infra/database_url.py",  # libpq's own parser of addresses
        "infra/db_errors.py",  # what an error means, for all of these
        "stream_jobs/database.py",
        "stream_jobs/event_store.py",
        "stream_jobs/vehicles/trip_list.py",  # a reader, for the command line
        "dashboard/queries.py",
        "infra/stack/",
        "infra/sql/",
        "infra/audit/tables.py",
        "infra/trace/tables.py",
        "infra/score/tables.py",
        "infra/vault/tables.py",
        "infra/alerts/store.py",  # for the command line and the page, which wait for nothing
        "infra/replay/databases.py",  # a run's own database beside the live one
    ),
}


def imported_by(path: Path) -> set[str]:
    """Top-level names of all that a file imports, wherever in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            found.add(node.module.partition(".")[0])
    return found


def files() -> list[tuple[str, set[str]]]:
    paths = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
    return [(path.relative_to(ROOT).as_posix(), imported_by(path)) for path in paths]


def test_each_service_library_is_imported_through_its_doors_only() -> None:
    broken = [
        f"{name} imports {library}"
        for name, imports in files()
        for library, doors in DOORS.items()
        if library in imports and not name.startswith(doors)
    ]
    assert broken == []


def test_packages_meet_only_in_infra() -> None:
    own = set(PACKAGES) - {"infra"}
    broken = [
        f"{name} imports {other}"
        for name, imports in files()
        for other in sorted(imports & own)
        if not name.startswith((f"{other}/", "infra/"))
    ]
    assert broken == []


def test_the_contract_imports_no_service_and_no_package() -> None:
    allowed_outside = {"orjson", "pydantic", "pydantic_settings"}
    broken = [
        f"{name} imports {other}"
        for name, imports in files()
        if name.startswith("infra/contract/")
        for other in sorted(imports & ({*DOORS, *PACKAGES, "pyspark", "streamlit"} - {"infra"}))
        if other not in allowed_outside
    ]
    assert broken == []


def test_no_test_reaches_for_a_mock_of_a_service() -> None:
    mocks = [
        path.relative_to(ROOT).as_posix()
        for path in sorted((ROOT / "tests").rglob("*.py"))
        if "unittest" in imported_by(path)
    ]
    assert mocks == []
