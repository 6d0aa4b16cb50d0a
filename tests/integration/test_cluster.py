"""The servers of a cluster, started and stopped: PostgreSQL's two and the brokers of MQTT."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import psycopg
import pytest

from infra.contract.errors import ServiceError
from infra.settings.settings import load
from infra.stack.downloads.fetch import fetch_all
from infra.stack.postgres import PostgresPair
from infra.stack.stack import Stack
from load_tests.drills import pair_faults

pytestmark = pytest.mark.integration


def check_failover_by_hand(stack: Stack, pair: PostgresPair, promoted: str, *, stopped: bool) -> None:
    """The primary was killed; ``up`` finds out who was promoted, also of servers that were stopped since."""
    pair.row(promoted, "SELECT pg_promote()")
    if stopped:
        stack.down()
    with suppress(ServiceError):  # it may have something that was never sent
        stack.up()
    assert (pair.primary, pair.row(promoted, "SELECT pg_is_in_recovery()")) == (promoted, (False,))
    pair_faults.rejoin(pair)
    with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
        pair.row(pair.standby, "INSERT INTO kept VALUES (8) RETURNING n")


def test_who_was_promoted_is_the_primary_after_a_new_start_and_has_what_was_committed(tmp_path: Path) -> None:
    for folder in (tmp_path, *tmp_path.parents[:2]):
        folder.chmod(0o711)
    settings = load(paths={"home": str(tmp_path)}, cluster={"mqtt": 2, "postgres": 2})
    stack = Stack(settings, print, only=("postgres", "mosquitto"))
    fetch_all(settings.paths.cache, stack.kinds)
    cluster, pair = stack.cluster, stack.cluster.pair
    assert pair is not None
    try:
        stack.up()
        url = f"{cluster.sections()['db']['url']}?target_session_attrs=read-write"
        with psycopg.connect(url, autocommit=True) as client:
            client.execute("CREATE TABLE kept AS SELECT 7 AS n")
            pair_faults.kill(pair)
        check_failover_by_hand(stack, pair, "postgres-2", stopped=False)
        pair_faults.kill(pair)
        check_failover_by_hand(stack, pair, "postgres-1", stopped=True)
        pair.runner.stop(pair.standby)
        stack.up()  # though no commit is acknowledged without it
        assert (pair.primary, pair.row(pair.standby, "SELECT sum(n) FROM kept")) == ("postgres-1", (7,))
        assert cluster.sections()["mqtt"]["url"].count(":") == 3
    finally:
        stack.down()
