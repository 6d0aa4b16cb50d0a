"""A filled topic is what vehicles would have sent: frames by the contract, on time, one a second."""

from __future__ import annotations

import pytest

from infra.contract.frame import decode
from load_tests.filling import Filling, messages
from load_tests.query_rate import rate_table
from load_tests.query_runs import Run

END_MS = 1_800_000_000_000


def test_each_vehicle_sends_a_frame_a_second_and_the_last_one_was_received_by_the_end() -> None:
    found = list(messages(Filling(frames=6, vehicles=2, scattered=False), END_MS))
    frames = [decode(value) for _, value, _ in found]
    assert [key for key, _, _ in found] == [frame["vehicle_id"] for frame in frames]
    received_ms = [at_ms for _, _, at_ms in found]
    assert [frame["seq"] for frame in frames] == [0, 0, 1, 1, 2, 2]
    assert [at_ms - END_MS for at_ms in received_ms] == [-3000, -3000, -2000, -2000, -1000, -1000]
    assert [frame["t0_ms"] + 1500 for frame in frames] == received_ms


@pytest.mark.parametrize(("frames", "vehicles", "seqs"), [(5, 2, [0, 0, 1, 1, 2]), (2, 3, [0, 0])])
def test_there_are_as_many_frames_as_asked_for_also_where_the_last_second_is_not_full(
    frames: int, vehicles: int, seqs: list[int]
) -> None:
    found = list(messages(Filling(frames, vehicles, scattered=False), END_MS))
    assert [decode(value)["seq"] for _, value, _ in found] == seqs
    assert found[-1][2] == END_MS - 1000


def test_rates_are_medians_and_ratios_to_the_yardsticks() -> None:
    def run(query: str, samples_per_s: float) -> Run:
        return Run(query, 1000, samples_per_s, 10.0, 0, 0, 0, {})

    runs = [run("decode", 1000), run("naive", 200), run("windows", 300), run("windows", 500)]
    table = rate_table([*runs, run("windows", 400)], ["decode", "naive", "windows"]).splitlines()
    assert table[-1] == "| windows | 400 | 0.40 | 2.00 | 10.0 |"
