"""When overload begins and ends."""

from __future__ import annotations

import pytest

from infra.contract.errors import ContractError
from infra.contract.incidents import Causes, Piece, is_fleet, joined
from infra.contract.messages import FLEET, RULE, Deferral, decode_alert
from infra.settings.sections import Overload as Terms
from stream_jobs.maintenance.overload import Overload, begins, ends
from stream_jobs.vehicles.rows import pack

TERMS = Terms(classes="car", lag_records=1000, grow_s=10, calm_records=50, least_s=60)
NOW_MS = 1_000_000


def lags(*records: int) -> list[tuple[int, int]]:
    """One a batch of 4 s, the last one now."""
    return [(NOW_MS - 4000 * at, waiting) for at, waiting in enumerate(reversed(records))][::-1]


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        ((200, 500, 900, 1300, 1700), True),
        ((200, 300, 500, 700, 999), False),
        ((9000, 8000, 7000, 6000, 5000), False),
        ((5000, 7000, 100, 9000, 12_000), False),
        ((1300, 1700), False),
        ((), False),
    ],
    ids=["grows beyond", "below the limit", "catches up", "sank meanwhile", "not known for long", "no batch"],
)
def test_it_begins_when_more_than_the_limit_waits_and_has_grown_for_a_while(
    records: tuple[int, ...], expected: bool
) -> None:
    assert begins(lags(*records), NOW_MS, TERMS) is expected


@pytest.mark.parametrize(
    ("records", "lasted_s", "expected"),
    [((900, 50), 60, True), ((900, 51), 60, False), ((900, 50), 59, False), ((), 60, False)],
    ids=["calm", "not calm", "too soon", "the query says nothing"],
)
def test_it_ends_when_little_waits_and_it_has_lasted(
    records: tuple[int, ...], lasted_s: int, expected: bool
) -> None:
    assert ends(lags(*records), NOW_MS, NOW_MS - 1000 * lasted_s, TERMS) is expected


def test_calm_long_ago_ends_nothing() -> None:
    assert not ends([(NOW_MS - 61_000, 0)], NOW_MS, NOW_MS - 600_000, TERMS)


def test_a_policy_is_read_back_and_another_record_is_refused() -> None:
    policy = Deferral(("car", "van"), 30.0)
    assert Deferral.decode(policy.encode()) == policy
    for value in (b"", b"[]", b"{}", b'{"classes": 3, "show_every_s": 1}'):
        with pytest.raises(ContractError):
            Deferral.decode(value)


def test_overload_is_an_incident_of_the_fleet() -> None:
    (group,) = joined([Piece(FLEET, NOW_MS, NOW_MS, "a")], Causes().terms(Causes().of(RULE)))
    assert is_fleet(group)
    assert not is_fleet([Piece("1HGCM82633A004352", NOW_MS, NOW_MS, "a")])


def test_begin_and_end_are_alerts_that_the_contract_takes_with_ids_of_their_own() -> None:
    task = Overload(TERMS, None, print, print)  # type: ignore[arg-type]
    begin, end = (
        decode_alert(pack(task._alert(NOW_MS, ended_ms, "car,van", 2000))) for ended_ms in (None, NOW_MS + 5)
    )
    assert begin["message"] == (
        "Overload: telemetry of car, van goes to the archive only; 2,000 records waited at its begin"
    )
    assert (begin["event_ms"], begin["ended"]) == (NOW_MS, False)
    assert (end["event_ms"], end["ended"]) == (NOW_MS + 5, True)
    assert begin["alert_id"] != end["alert_id"]
