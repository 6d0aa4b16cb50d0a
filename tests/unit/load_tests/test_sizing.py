"""Sizing: what a card says of one rate, for fleets of other sizes."""

from __future__ import annotations

from load_tests.sizing import first_limit, need, report

CARD = {
    "sustained": {
        "frames_per_s": 2000.0,
        "vehicles": 1000,
        "us_a_frame": {"jobs": 150.0, "bridge": 30.0, "mosquitto": 20.0, "postgres": 50.0, "simulate": 40.0},
    },
    "costs": {"log": 500.0, "archive": 300.0, "database": 100.0, "wal": 400.0},
}  # fmt: skip


def test_a_fleet_needs_what_its_frames_cost_by_the_share_of_a_core_that_is_used() -> None:
    found = need(CARD, 10_000, busy=0.5, replicas=3, log_days=7)
    assert found.frames_per_s == 20_000
    assert found.cores == {"jobs": 6.0, "bridge": 1.2, "mosquitto": 0.8, "postgres": 2.0}
    assert found.processes == {"mosquitto": 1, "bridge": 2}
    assert found.log_gb == 18_144  # 20,000 x 500 bytes x 86,400 s x 7 days x 3
    assert (found.archive_gb_a_day, found.database_gb_a_day) == (518.4, 172.8)
    assert (found.log_in_mb_per_s, found.log_out_mb_per_s, found.wal_mb_per_s) == (30, 50, 8)


def test_the_report_has_a_column_a_fleet_and_names_the_first_that_one_writer_does_not_carry() -> None:
    needs = [need(CARD, vehicles, 0.5, 3, 7) for vehicles in (1_000, 1_000_000)]
    assert report(needs).splitlines()[0].split() == ["vehicles", "1,000", "1,000,000"]
    one = "one PostgreSQL primary of 32 cores carries 320,000 frames/s"
    assert first_limit(needs, 32) == f"{one}: 1,000,000 vehicles need several databases"
    assert first_limit(needs[:1], 32) == one
