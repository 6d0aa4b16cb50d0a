"""What belongs to one incident: the same, in whatever order and batches alerts come."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.contract.errors import ContractError
from infra.contract.incidents import Causes, Piece, Terms, is_fleet, joined

HOUR = Terms(join_ms=3_600_000)
CROWD = Terms(join_ms=1000, vehicles=3, within_ms=100)


def piece(vehicle: str, from_ms: int, to_ms: int | None = None, known: str | None = None) -> Piece:
    """A finding, or with ``known`` what is of that incident."""
    return Piece(vehicle, from_ms, from_ms if to_ms is None else to_ms, known or f"{vehicle}-{from_ms}")


def names(pieces: Sequence[Piece], terms: Terms) -> list[list[str]]:
    return [[f"{p.vehicle_id}-{p.from_ms}" for p in group] for group in joined(pieces, terms)]


def test_what_is_at_most_the_reach_apart_is_one_incident_and_a_vehicle_has_its_own() -> None:
    found = names([piece("A", 0), piece("A", 3_600_000), piece("B", 5), piece("A", 7_200_001)], HOUR)
    assert found == [["A-0", "A-3600000"], ["B-5"], ["A-7200001"]]


def test_the_reach_counts_from_the_end_of_an_alert_that_lasted() -> None:
    assert names([piece("A", 0, 9_000_000), piece("A", 12_600_000)], HOUR) == [["A-0", "A-12600000"]]


def test_a_finding_between_two_incidents_joins_them_under_the_name_of_the_first() -> None:
    old, new = piece("A", 0, known="one"), piece("A", 7_000_000, known="two")
    (group,) = joined([old, new, piece("A", 3_500_000)], HOUR)
    assert group[0].incident_id == "one"
    assert not is_fleet(group)


def test_many_vehicles_at_once_are_one_incident_and_a_later_one_has_its_own() -> None:
    found = joined([piece("A", 0), piece("B", 60), piece("C", 100), piece("D", 300)], CROWD)
    assert [[p.vehicle_id for p in group] for group in found] == [["A", "B", "C"], ["D"]]
    assert [is_fleet(group) for group in found] == [True, False]


def test_one_vehicle_many_times_is_no_crowd() -> None:
    found = joined([piece("A", 0), piece("A", 10), piece("A", 20), piece("B", 30)], CROWD)
    assert not any(is_fleet(group) for group in found)


def test_two_crowds_within_the_reach_are_one_incident_of_the_fleet() -> None:
    first, second = ([piece(v, at) for v in "ABC"] for at in (0, 900))
    assert len(joined([*first, *second], CROWD)) == 1
    assert len(joined([*first, *(piece(v, 1101) for v in "DEF")], CROWD)) == 2


def test_an_incident_of_the_fleet_stays_the_fleets() -> None:
    (group,) = joined([Piece("A", 0, 0, "f", fleet=True), piece("A", 50)], CROWD)
    assert is_fleet(group)


def stored(pieces: Sequence[Piece], cuts: Sequence[int], terms: Terms) -> set[frozenset[tuple[str, int]]]:
    """As the store does it, batch by batch: what is known goes first. Which findings are together."""
    known: list[Piece] = []
    for low, high in zip([0, *cuts], [*cuts, len(pieces)], strict=True):
        groups = joined([*known, *pieces[low:high]], terms)
        whole = ((p, group[0].incident_id, is_fleet(group)) for group in groups for p in group)
        known = [replace(p, incident_id=name, fleet=of_fleet) for p, name, of_fleet in whole]
    members: dict[str, set[tuple[str, int]]] = {}
    for p in known:
        members.setdefault(p.incident_id, set()).add((p.vehicle_id, p.from_ms))
    return {frozenset(each) for each in members.values()}


FINDINGS = st.lists(st.tuples(st.sampled_from("ABCDE"), st.integers(0, 60)), max_size=25, unique=True)


@given(FINDINGS, st.data())
def test_any_order_and_any_cut_into_batches_give_the_same_incidents(
    found: list[tuple[str, int]], data: st.DataObject
) -> None:
    terms = Terms(join_ms=4, vehicles=3, within_ms=2)
    pieces = [piece(vehicle, at) for vehicle, at in found]
    cuts = sorted(data.draw(st.lists(st.integers(0, len(pieces)), max_size=6)))
    assert stored(data.draw(st.permutations(pieces)), cuts, terms) == stored(pieces, [], terms)


def test_a_trouble_code_goes_before_its_rule_and_a_rule_without_a_cause_is_its_own() -> None:
    causes = Causes({"dtc_active": "trouble_code", ".P0217": "cooling"}, {"cooling": Terms(5)})
    assert [causes.of(rule) for rule in ("dtc_active.P0217", "dtc_active.B1", "mine", "mine.x")] == [
        "cooling", "trouble_code", "mine", "mine",
    ]  # fmt: skip
    assert (causes.terms("cooling").join_ms, causes.terms("mine").join_ms) == (5, 3_600_000)


def test_where_parts_are_apart_each_is_a_cause_with_the_terms_of_all() -> None:
    causes = Causes({"low": "tyre", "hot": "tyre", ".P1": "cooling"}, {"tyre": Terms(5)}, ("tyre",))
    assert [causes.of(rule) for rule in ("low.front left", "hot.front left", "low", "low.P1", "mine.x")] == [
        "tyre front left", "tyre front left", "tyre", "cooling", "mine",
    ]  # fmt: skip
    assert causes.terms("tyre front left") == causes.terms("tyre") == Terms(5)


def test_the_stores_word_is_read_as_it_was_written_and_nonsense_is_refused() -> None:
    causes = Causes({"a": "b"}, {"b": Terms(5, 10, 300)}, ("c",))
    assert Causes.decode(causes.encode()) == causes
    key, value = Piece("V1", 1, 2, "i", fleet=True).encode("silence")
    assert (key, Piece.decode(value)) == ("V1.silence", ("silence", Piece("V1", 1, 2, "i", fleet=True)))
    for nonsense in (b"", b"[]", b'{"cause": "x"}'):
        with pytest.raises(ContractError):
            Piece.decode(nonsense)
        with pytest.raises(ContractError):
            Causes.decode(nonsense)
