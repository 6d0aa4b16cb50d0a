"""Each shipped rule fires on a bad frame and all stay silent on healthy ones. Spark, in batch."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from edge_simulator import scenario
from edge_simulator.world import World
from infra.contract.messages import ALERT_KEYS
from infra.contract.verdict import QUARANTINED, ClockLimits
from stream_jobs.app.schema import HEAD as HEAD_FIELDS
from stream_jobs.frames.plausibility import POSITION, with_plausible
from stream_jobs.rules.instant import (
    FRAME,
    crash_findings,
    frame_findings,
    kafka_records,
    parse,
    with_verdict,
)
from stream_jobs.rules.model import INSTANT, Rule, load_rules, of_query

VIN, FOREIGN = "1HGCM82633A004352", "1HGCM82633A004353"
T0 = 1_790_000_000_000
RECEIVED = T0 + 1_200
LIMITS = ClockLimits(floor_ms=1_420_070_400_000, ahead_ms=10_000, lateness_ms=30_000)
RULES = of_query(load_rules(), INSTANT)
RECORD = "topic string, partition int, log_offset long, key binary, received_ms long, value string"

HEAD = {"schema": 1, "vehicle_id": VIN, "boot_id": 5, "sent_ms": T0 + 1_000}
DRIVE = {
    "t0_ms": T0,
    "dt_ms": 100,
    "n": 3,
    "speed_kmh": [62.1, 62.3, 62.2],
    "lat_deg": [52.5, 52.500001, None],
    "lon_deg": [13.4, 13.400001, None],
    "ignition_on": True,
    "ambient_temp_c": 21.0,
    "battery_voltage_v": 13.9,
    **{f"tyre_temp_{wheel}_c": 38.0 for wheel in ("fl", "fr", "rl", "rr")},
}
ENGINE = {
    "engine_rpm": [2150.0, 2160.0, 2155.0],
    "coolant_temp_c": 96.0,
    "oil_pressure_kpa": 310.0,
    "engine_load_pct": 34.0,
}
PETROL = DRIVE | ENGINE | {f"tyre_pressure_{w}_kpa": 230.0 for w in ("fl", "fr", "rl", "rr")}
DIESEL = DRIVE | ENGINE | {
    "engine_rpm": [600.0, 610.0, 605.0],
    "oil_pressure_kpa": 104.0,
    "dpf_soot_pct": 99.0,
    "battery_voltage_v": 28.1,
    "tyre_pressure_fl_kpa": 790.0,
    "tyre_pressure_fr_kpa": 795.0,
    "tyre_pressure_rl_kpa": 620.0,
    "tyre_pressure_rr_kpa": 600.0,
}  # fmt: skip
ELECTRIC = DRIVE | {
    "soc_pct": 64.2,
    "pack_voltage_v": 362.0,
    "pack_current_a": 41.0,
    "cell_voltage_min_v": 3.70,
    "cell_voltage_max_v": 3.85,
    "cell_temp_max_c": 41.0,
    "motor_temp_c": 88.0,
    "battery_voltage_v": 12.4,
    **{f"tyre_pressure_{wheel}_kpa": 250.0 for wheel in ("fl", "fr", "rl", "rr")},
}
STARTING = PETROL | {
    "speed_kmh": [0.0, 0.0, 0.0],
    "engine_rpm": [0.0, 240.0, 719.0],
    "battery_voltage_v": 9.8,
    "oil_pressure_kpa": 0.0,
}
PARKED = PETROL | {
    "speed_kmh": [0.0, 0.0, 0.0],
    "engine_rpm": [0.0, 0.0, 0.0],
    "battery_voltage_v": 11.9,
    "oil_pressure_kpa": 0.0,
}

BAD = [
    ("coolant_critical", PETROL | {"coolant_temp_c": 115.5}, 115.5, 115.0),
    ("oil_pressure_critical", PETROL | {"engine_rpm": [2600.0] * 3, "oil_pressure_kpa": 90}, 90.0, 103.5),
    ("overvoltage_12v", PETROL | {"battery_voltage_v": 15.4}, 15.4, 15.0),
    ("overvoltage_24v", DIESEL | {"battery_voltage_v": 30.5}, 30.5, 30.0),
    ("undervoltage_12v", PETROL | {"battery_voltage_v": 11.8}, 11.8, 12.0),
    ("tyre_deflated.rear left", PETROL | {"tyre_pressure_rl_kpa": 110.0}, 110.0, 126.5),
    ("tyre_hot.rear right", DIESEL | {"tyre_temp_rr_c": 93.0}, 93.0, 90.0),
    ("cell_hot", ELECTRIC | {"cell_temp_max_c": 61.0}, 61.0, 60.0),
    ("cell_imbalance", ELECTRIC | {"pack_current_a": 1.5}, 150.0, 100.0),
    ("dpf_clogged", DIESEL | {"dpf_soot_pct": 121.0}, 121.0, 120.0),
]
CRASHES = [
    ("crash_airbag", {"airbag_deployed": True, "delta_v_max_kmh": -40.0}, 40.0, None),
    ("crash_severe", {"airbag_deployed": False, "delta_v_kmh": [-3.0, -26.0, -25.0]}, 26.0, 25.0),
    ("crash_impact", {"airbag_deployed": False, "delta_v_max_kmh": -9.0}, 9.0, None),
    ("crash_impact", {}, None, None),
]


@pytest.fixture(scope="module", name="spark")
def as_the_query_runs(query_spark: SparkSession) -> SparkSession:
    return query_spark


def rows_of(messages: list[dict[str, Any]], received_ms: int = RECEIVED, key: str = VIN) -> list[Any]:
    return [("t", 0, k, key.encode(), received_ms, json.dumps(m)) for k, m in enumerate(messages)]


def records(spark: SparkSession, messages: list[dict[str, Any]]) -> DataFrame:
    return spark.createDataFrame(rows_of(messages), RECORD)


def frames(*bodies: dict[str, Any], boot_id: int = 5) -> list[dict[str, Any]]:
    return [HEAD | {"boot_id": boot_id, "seq": seq} | body for seq, body in enumerate(bodies)]


HOT = PETROL | {"coolant_temp_c": 120.0}
AGAIN = RECEIVED + 60_000
UNBELIEVED = (0, 2_085_978_496_000, RECEIVED + 9_801)
CASES: dict[str, tuple[list[dict[str, Any]], int]] = {
    "bad": ([body for _, body, _, _ in BAD], RECEIVED),
    "healthy": ([PETROL, DIESEL, ELECTRIC, STARTING, PARKED, {"t0_ms": T0}], RECEIVED),
    "implausible": (
        [PETROL | {"coolant_temp_c": 300.0, "battery_voltage_v": 40.0, "tyre_temp_fl_c": 200.0}], RECEIVED,
    ),
    "clock": ([HOT | {"t0_ms": t0_ms} for t0_ms in UNBELIEVED], RECEIVED),
    "late": ([HOT], T0 + 3_600_000),
    "nowhere": (
        [
            HOT | {"lat_deg": [0, 0, -0.0], "lon_deg": [0, -0.0, 0]},
            HOT | {"lat_deg": [52.5, 0, 0], "lon_deg": [13.4, 0, 0]},
            HOT | {"lat_deg": [91.0], "lon_deg": [181.0]},
        ],
        RECEIVED,
    ),
    "twice": ([HOT, HOT], RECEIVED),
    "no place": ([ELECTRIC | {"cell_temp_max_c": 61.0, "lat_deg": None}], RECEIVED),
}  # fmt: skip
"""Frames by case, and when they were received: each case has a boot of its own."""
FRAME_RULES = [rule for rule in RULES if rule.source == "frame"]
CRASH_RULES = [rule for rule in RULES if rule.source == "crash"]


@pytest.fixture(scope="module")
def simulated() -> dict[str, list[dict[str, Any]]]:
    """Frames of a fleet without faults, by vehicle."""
    beat = scenario.cadence(200, 200.0, None)
    world = World(
        scenario.Scenario(seed=1, vehicles=200, cadence=beat, frames_per_vehicle=20, limit=None, start_ms=T0)
    )
    found: dict[str, list[dict[str, Any]]] = {}
    for slot in world.slots():
        for body in (orjson.loads(m.payload) for m in slot.messages if m.channel == "telemetry"):
            found.setdefault(body["vehicle_id"], []).append(body)
    return found


@pytest.fixture(scope="module")
def findings(spark: SparkSession, simulated: dict[str, list[dict[str, Any]]]) -> DataFrame:
    """One query over all frames: each query costs seconds."""
    rows = [
        row
        for boot_id, (bodies, received_ms) in enumerate(CASES.values())
        for row in rows_of(frames(*bodies, boot_id=boot_id), received_ms)
    ]
    rows += rows_of(frames(HOT, boot_id=[*CASES].index("twice")), AGAIN)
    rows += rows_of([{"coolant_temp_c": 120.0}, {"vehicle_id": VIN}])
    rows += rows_of(frames(HOT, boot_id=len(CASES)), key=FOREIGN)
    for key, bodies in simulated.items():
        rows += rows_of(bodies, T0 + 30_000, key)
    return frame_findings(spark.createDataFrame(rows, RECORD), FRAME_RULES, LIMITS)


@pytest.fixture(scope="module")
def found(findings: DataFrame) -> list[Row]:
    """What all frames raise."""
    return sorted(
        findings.collect(), key=lambda row: (row["boot_id"], row["received_ms"], row["seq"], row["rule"])
    )


def of(found: list[Row], case: str) -> list[Row]:
    return [row for row in found if row["boot_id"] == [*CASES].index(case)]


def test_each_shipped_frame_rule_fires_alone_on_its_bad_frame(found: list[Row]) -> None:
    bad = of(found, "bad")
    assert [(row["rule"], row["seq"]) for row in bad] == [(rule, k) for k, (rule, *_) in enumerate(BAD)]
    for row, (_, _, value, limit) in zip(bad, BAD, strict=True):
        assert row["value"] == pytest.approx(value)
        assert row["limit"] == pytest.approx(limit)
    messages = {row["rule"]: row["message"] for row in bad}
    assert messages["tyre_hot.rear right"] == "Air in a tyre above 90 degC: rear right"
    assert messages["cell_hot"] == "Traction battery cell above 60 degC"


def test_every_shipped_rule_is_among_the_bad_examples() -> None:
    assert {rule.id for rule in RULES} == {name.partition(".")[0] for name, *_ in [*BAD, *CRASHES]}


@pytest.mark.parametrize("case", ["healthy", "implausible", "clock"])
def test_healthy_vehicles_implausible_values_and_clocks_not_believed_raise_nothing(
    found: list[Row], case: str
) -> None:
    assert of(found, case) == []


def test_a_simulated_fleet_without_faults_raises_nothing(
    found: list[Row], simulated: dict[str, list[dict[str, Any]]]
) -> None:
    assert sum(map(len, simulated.values())) == 4000
    assert {row["vehicle_id"] for row in found} == {VIN}


def test_a_late_frame_raises_at_the_time_of_its_last_sample(found: list[Row]) -> None:
    (row,) = of(found, "late")
    assert (row["event_ms"], row["received_ms"]) == (T0 + 200, T0 + 3_600_000)
    assert (row["lat_deg"], row["lon_deg"]) == (52.500001, 13.400001)


def test_an_alert_is_never_at_0_0_nor_off_the_globe(found: list[Row]) -> None:
    places = [(row["lat_deg"], row["lon_deg"]) for row in of(found, "nowhere")]
    assert places == [(None, None), (52.5, 13.4), (None, None)]


def test_the_same_finding_has_the_same_id_and_another_frame_another(found: list[Row]) -> None:
    first, second, again = of(found, "twice")
    assert (first["received_ms"], again["received_ms"]) == (RECEIVED, AGAIN)
    assert first["alert_id"] == again["alert_id"] != second["alert_id"]
    assert len(first["alert_id"]) == 32


def test_what_is_no_frame_or_lies_under_another_vehicles_key_raises_nothing(found: list[Row]) -> None:
    assert {row["boot_id"] for row in found} <= {*range(len(CASES))}


@pytest.fixture(scope="module")
def crashed(spark: SparkSession) -> list[Row]:
    """What all crashes raise; the last one has an impossible clock."""
    bodies = [
        HEAD | {"seq": k, "crash_id": f"5-{k}", "event_ms": T0} | crash
        for k, (_, crash, _, _) in enumerate(CRASHES)
    ]
    late = {"seq": len(CRASHES), "crash_id": "5-x", "event_ms": 2_085_978_496_000, "airbag_deployed": True}
    rows = records(spark, [*bodies, HEAD | late])
    return crash_findings(rows, CRASH_RULES, LIMITS).orderBy("seq").collect()


def test_every_crash_raises_exactly_one_alert(crashed: list[Row]) -> None:
    assert [(row["rule"], row["value"], row["limit"]) for row in crashed[:-1]] == [
        (rule, value, limit) for rule, _, value, limit in CRASHES
    ]


def test_a_crash_with_an_impossible_clock_raises_at_its_receipt(crashed: list[Row]) -> None:
    assert (crashed[-1]["seq"], crashed[-1]["event_ms"]) == (len(CRASHES), RECEIVED)


def test_an_alert_on_the_wire_has_every_key_and_its_vehicle_as_key(
    spark: SparkSession, findings: DataFrame, found: list[Row]
) -> None:
    alerts = spark.createDataFrame(of(found, "no place"), findings.schema)
    (sent,) = kafka_records(alerts).collect()
    alert = orjson.loads(sent["value"])
    assert sent["key"] == VIN
    assert tuple(alert) == ALERT_KEYS
    assert (alert["rule"], alert["lat_deg"]) == ("cell_hot", None)


def test_a_source_without_rules_is_read_and_gives_nothing(spark: SparkSession) -> None:
    assert frame_findings(records(spark, frames(PETROL)), [], LIMITS).collect() == []
    assert crash_findings(records(spark, []), [], LIMITS).collect() == []


def test_an_error_in_a_rule_is_no_finding_and_no_end(spark: SparkSession) -> None:
    dividing = replace(RULES[0], value="coolant_temp_c / (gear - gear)")
    raw = records(spark, frames(PETROL | {"coolant_temp_c": 120.0, "gear": 3}))
    assert frame_findings(raw, [dividing], LIMITS).collect() == []


SAMPLE = st.none() | st.sampled_from([0, -0.0, 2600.0, 91.0, 251.0, "x", [1]]) | st.floats(-200, 9000)
SIGNALS = [f.name for f in FRAME if f.name in {*POSITION}.union(*(rule.words() for rule in RULES))]
"""Of frames and, as words of crash rules, no more."""
ODD = (
    st.sampled_from([None, "12", True, [], {}, [None], {"a": [1]}, 2**70])
    | SAMPLE
    | st.lists(SAMPLE, max_size=3)
)
STRANGE = st.fixed_dictionaries({}, optional=dict.fromkeys(SIGNALS, ODD | st.floats(-50, 130)))
CLOCKS = st.sampled_from([{}, {}, {}, {"t0_ms": 0}, {"t0_ms": RECEIVED + 9_801}, {"n": 0}, {"seq": None}])
PLACED = replace(
    RULES[0], id="placed", condition="lat_deg[0] = 0", value="coalesce(lon_deg[0], seq)", limit="1"
)


def fired_unoptimised(spark: SparkSession, raw: DataFrame, rules: Sequence[Rule]) -> set[tuple[Any, ...]]:
    """What rules find when everything is computed for each frame: every signal cleaned, nothing deferred."""
    schema = FRAME
    judged = with_verdict(
        parse(raw, type(schema)([f for f in schema if f.name in {*HEAD_FIELDS, *SIGNALS}])), LIMITS
    )
    seen = with_plausible(judged, SIGNALS).where(~F.col("verdict").isin(*QUARANTINED))
    last = [f"try_element_at(filter({name}, x -> x IS NOT NULL), -1)" for name in POSITION]
    columns = ["seq", *last]
    for rule in rules:
        beyond = f"({rule.value}) {'>' if rule.beyond == 'above' else '<'} ({rule.limit})"
        holds = f"coalesce(({rule.condition}) AND {beyond}, false)"
        name = f"concat_ws('.', '{rule.id}', array_join({rule.names}, ''))" if rule.names else f"'{rule.id}'"
        columns += [holds, name, f"double({rule.value})", f"double({rule.limit})"]
    found = set()
    for seq, lat_deg, lon_deg, *answers in (tuple(row) for row in seen.selectExpr(*columns).collect()):
        for holds, *finding in batched(answers):
            if holds:
                found.add((seq, *finding, lat_deg, lon_deg))
    return found


def batched(answers: list[Any]) -> list[tuple[Any, ...]]:
    return list(zip(*[iter(answers)] * 4, strict=True))


def strange_frames(examples: int) -> list[dict[str, Any]]:
    """Bad frames and strange ones of each kind of vehicle, for one query: each query costs seconds."""
    found: list[tuple[dict[str, Any], dict[str, Any]]] = [
        (PETROL | {"lat_deg": [0.0], "lon_deg": [91.0]}, {})
    ]

    @settings(max_examples=examples, deadline=None, database=None, derandomize=True)
    @given(
        strange=st.lists(st.tuples(STRANGE, CLOCKS), min_size=20, max_size=60),
        base=st.sampled_from([PETROL, DIESEL, ELECTRIC]),
    )
    def draw(strange: list[tuple[dict[str, Any], dict[str, Any]]], base: dict[str, Any]) -> None:
        clocks = [clock for _, clock in strange]
        found.extend(zip([base | body for _, body, _, _ in BAD], clocks, strict=False))
        found.extend((base | body, clock) for body, clock in strange)

    draw()
    return [whole | clock for whole, (_, clock) in zip(frames(*(f for f, _ in found)), found, strict=True)]


def test_what_is_deferred_until_a_rule_fires_changes_no_finding(spark: SparkSession) -> None:
    raw = records(spark, strange_frames(examples=12))
    rules = [*FRAME_RULES, PLACED]
    columns = ("seq", "rule", "value", "limit", *POSITION)
    found = {tuple(row) for row in frame_findings(raw, rules, LIMITS).select(*columns).collect()}
    assert {rule.partition(".")[0] for _, rule, *_ in found} == {rule.id for rule in rules}
    assert found == fired_unoptimised(spark, raw, rules)
