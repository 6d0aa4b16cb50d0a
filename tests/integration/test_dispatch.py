"""People and their role: what `odograph alerts ack | clear | silence` does, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import psycopg
import pytest

from infra.clients.db import system_user
from infra.contract.downlink import Silences
from infra.contract.errors import ConfigError, ServiceError
from infra.sql import queries
from infra.stack.stack import Stack
from stream_jobs.alerts.store import alert_store
from stream_jobs.events.writes import note_rules, rule_notes
from stream_jobs.rules.cohort.judge import load_metrics
from stream_jobs.rules.model import load_rules
from tests import support_rows
from tests.rows.town import vehicle_id
from tests.support import Lane, open_lane

pytestmark = pytest.mark.integration

REFUSED = (
    "SELECT count(*) FROM odograph.alert",
    "UPDATE odograph.alert SET severity = 'WARNING'",
    "SELECT count(*) FROM serving.alert",
    "INSERT INTO odograph.alert_silence (rule, until_at, by_whom, why) VALUES ('x', now(), 'me', 'why')",
    "SELECT odograph.custody_append('deleted', 'x', 1, 'x', '', '', '')",
    "SELECT odograph.crash_lock_set('x', 1, 'x', 'me', 'why', '')",
    "CREATE TABLE dispatch.mine (n integer)",
    "CREATE FUNCTION dispatch.mine() RETURNS integer LANGUAGE sql RETURN 1",
    "SELECT dispatch.words('name', 'me', 80)",
    "SELECT odograph.audit_append('signed in', NULL, '')",
    "SELECT * FROM odograph.audit_log",
)


@pytest.fixture(scope="module")
def filled(stack: Stack) -> Iterator[Lane]:
    """Known rows; each test has alerts of its own among them."""
    with open_lane(stack, topics=False) as lane:
        with psycopg.connect(lane.endpoints.db_ingest_url) as connection:
            support_rows.fill(connection, datetime.now(UTC))
        yield lane


def history(lane: Lane, alert_no: int) -> list[tuple[str, str | None, str | None]]:
    """What happened to an alert, by whom, in which words."""
    query = "SELECT change, by_whom, note FROM serving.alert_change WHERE alert_no = %s ORDER BY recorded_at"
    with psycopg.connect(lane.endpoints.db_dashboard_url) as connection:
        return [(c, w, n) for c, w, n in connection.execute(query, (alert_no,))]


def test_people_acknowledge_and_end_alerts_once_and_the_history_says_who(filled: Lane) -> None:
    with alert_store(filled.endpoints.db_dispatch_url) as people:
        assert people.do("acknowledge", [1, 2], "A. Okafor", "called the driver") == [1, 2]
    with alert_store(filled.endpoints.db_dispatch_url) as people:
        assert people.do("acknowledge", [1, 4], "M. Weber", None) == [4]
        assert people.do("clear", [2, 6], "M. Weber", "towed") == [2]
    assert history(filled, 1)[1:] == [("acknowledged", "A. Okafor", "called the driver")]
    assert history(filled, 2)[1:] == [
        ("acknowledged", "A. Okafor", "called the driver"),
        ("cleared", "M. Weber", None),
    ]
    with alert_store(filled.endpoints.db_ingest_url) as jobs:
        ended = jobs.shown(2)
        assert [row["alert_no"] for row in jobs.listed(None, None, False, 10)] == [5, 1, 3, 4]
    assert (ended["cleared_by"], ended["note"]) == ("M. Weber", "towed")


def test_a_silence_of_the_command_and_one_of_the_page_are_in_the_file_together(filled: Lane) -> None:
    done = filled.run("alerts", "silence", "--rule", "speeding", "--for", "30m", "--why", "road works")
    assert (done.returncode, done.stderr) == (0, "")
    typed = filled.run("alerts", "silence", "--rule", "speding", "--for", "30m", "--why", "road works")
    assert (typed.returncode, "no such rule; there are: " in typed.stderr) == (2, True)
    with alert_store(filled.endpoints.db_dispatch_url) as people:
        people.silence(None, vehicle_id(0), 600, "A. Okafor", "in the workshop")
        told = people.in_force()
    assert [(silence.rule, silence.vehicle_id) for silence in told] == [
        ("speeding", None),
        (None, vehicle_id(0)),
    ]
    now_ms = round(datetime.now(UTC).timestamp() * 1000)
    assert Silences(filled.home).cover(vehicle_id(9), "speeding", now_ms)
    check_ended(filled, now_ms)


def check_ended(filled: Lane, now_ms: int) -> None:
    """The command ends the silence of the rule once; that of the vehicle stays."""
    query = "SELECT silence_no FROM serving.alert_silence WHERE in_force AND rule = 'speeding'"
    with psycopg.connect(filled.endpoints.db_dashboard_url) as connection:
        ((number,),) = connection.execute(query).fetchall()
    done = filled.run("alerts", "unsilence", str(number), "--by", "M. Weber")
    assert (done.returncode, done.stdout) == (0, f"ended: {number}\n")
    silences = Silences(filled.home)
    assert not silences.cover(vehicle_id(9), "speeding", now_ms)
    assert silences.cover(vehicle_id(0), "speeding", now_ms)
    with alert_store(filled.endpoints.db_dispatch_url) as people:
        assert people.end_silences([number], "M. Weber") == []
    query = "SELECT in_force, ended_by, until_at > from_at FROM serving.alert_silence WHERE silence_no = %s"
    with psycopg.connect(filled.endpoints.db_dashboard_url) as connection:
        assert connection.execute(query, (number,)).fetchall() == [(False, "M. Weber", True)]


@pytest.mark.parametrize("name", ["", "  ", "two\nlines", "x" * 81])
def test_a_name_that_is_no_line_of_text_is_refused_and_nothing_is_done(filled: Lane, name: str) -> None:
    with pytest.raises(ConfigError, match="name: a line"), alert_store(filled.endpoints.db_dispatch_url) as s:
        s.do("acknowledge", [5], name, None)
    assert len(history(filled, 5)) == 1


def test_the_role_of_people_can_do_nothing_else(filled: Lane) -> None:
    refused = []
    with psycopg.connect(filled.endpoints.db_dispatch_url, autocommit=True) as connection:
        for statement in REFUSED:
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(statement.encode())
            refused.append(statement)
    assert refused == list(REFUSED)


def test_the_role_that_reads_cannot_do_what_people_do(filled: Lane) -> None:
    with psycopg.connect(filled.endpoints.db_dashboard_url, autocommit=True) as connection:
        connection.execute("SET default_transaction_read_only = off")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("SELECT dispatch.acknowledge('{1}', 'me', NULL)")


def test_the_rules_in_force_are_noted_and_those_that_are_gone_stay_as_such(filled: Lane) -> None:
    rows = rule_notes(load_rules(), load_metrics())
    query = "SELECT kind, value_sql, limit_sql, in_force FROM serving.rule WHERE rule = %s"
    with psycopg.connect(filled.endpoints.db_ingest_url) as connection, connection.cursor() as cursor:
        note_rules(cursor, rows)
        note_rules(cursor, [row for row in rows if row["rule"] != "cell_hot"])
        found = {
            rule: cursor.execute(query, (rule,)).fetchone()
            for rule in ("cell_hot", "coolant_hot", "vehicle_silent")
        }
    assert found == {
        "cell_hot": ("frame", "cell_temp_max_c", "60.0D", False),
        "coolant_hot": ("level", "coolant_temp_c", "105.0D", True),
        "vehicle_silent": ("silence", None, None, True),
    }


def test_the_audit_log_names_who_signed_in_and_no_role_changes_an_entry(filled: Lane) -> None:
    urls = filled.endpoints
    with alert_store(urls.db_dispatch_url, "ada@example.org") as people:
        assert len(people.do("acknowledge", [0, 3, 5], "Somebody Else", "seen")) == 1
        people.silence(None, vehicle_id(0), 60.0, "Somebody Else", "workshop")
    queries.note(urls.db_dispatch_url, "vehicle viewed", vehicle_id(0), "dashboard", "ada okafor\\ (x)")
    queries.note(urls.db_ingest_url, "notice sent", None, "hello")
    with pytest.raises(ServiceError, match="crash exported is noted by what does it"):
        queries.note(urls.db_dispatch_url, "crash exported", None, "")
    newest = queries.audit_log(urls.db_ingest_url, None, None, 4)
    assert [(row["actor"], row["role"], row["action"]) for row in newest] == [
        ("ada@example.org", "odograph_dispatch", "alert acknowledged"),
        ("ada@example.org", "odograph_dispatch", "alerts silenced"),
        ("ada okafor\\ (x)", "odograph_dispatch", "vehicle viewed"),
        (system_user(), "odograph_ingest", "notice sent"),
    ]
    assert "by_whom Somebody Else, note seen" in newest[0]["detail"]
    writes = ("UPDATE odograph.audit_log SET actor = 'x'", "DELETE FROM odograph.audit_log",
              "TRUNCATE odograph.audit_log")  # fmt: skip
    insert = "INSERT INTO odograph.audit_log SELECT * FROM odograph.audit_log"
    roles = [getattr(urls, f"db_{name}_url") for name in ("owner", "ingest", "dashboard", "dispatch")]
    tried = [(url, change) for url in roles for change in writes] + [(url, insert) for url in roles[1:]]
    for url, change in tried:
        with psycopg.connect(url, options="-c default_transaction_read_only=off") as connection:
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(change.encode())
            connection.rollback()
    assert filled.run("audit-log", "--actor", "ada@example.org").stdout.count("ada@example.org") == 2
    with psycopg.connect(urls.db_owner_url) as owner:
        owner.execute("ALTER TABLE odograph.audit_log DISABLE TRIGGER append_only")
        owner.execute("UPDATE odograph.audit_log SET actor = 'x' WHERE actor = 'ada@example.org'")
    changed = filled.run("audit-log")
    assert (changed.returncode, "entries do not hold: the log was changed" in changed.stdout) == (1, True)
