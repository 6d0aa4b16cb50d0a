"""Promotion, rollback and drop end at any point by SIGKILL: half of one is never read, again finishes it."""

from __future__ import annotations

import uuid
from dataclasses import replace

import pytest

from infra.clients.database_url import with_name
from infra.contract.topics import KAFKA_TOPICS
from infra.stack.kafka import create_topics, missing_topics
from stream_jobs.replay import databases, promote, runs
from stream_jobs.replay.databases import connected
from tests.integration.killing import Point, kill_at
from tests.integration.promotion_support import (
    alert,
    database_of,
    definitions,
    drop_alone,
    hour,
    metres,
    promote_alone,
    roll_back_alone,
    run_of,
    windows,
)
from tests.support import Lane

pytestmark = [pytest.mark.integration, pytest.mark.tables]

BEFORE_IT_IS_READ = (
    Point("stream_jobs.replay.promote:_copy_table", 2),  # within the first transaction
    Point("stream_jobs.replay.promote:copy_in"),  # the rows are there, and read by nobody
    Point(
        "stream_jobs.replay.promote:promoted_view", 3
    ),  # within the second transaction: some views are made
    Point("stream_jobs.replay.promote:_read_through"),  # all is done, and not committed
)
BEFORE_IT_IS_BACK = (
    Point("stream_jobs.replay.promote:reading", 20),  # some views read live again
    Point("stream_jobs.replay.promote:_read_through"),
)
WITHIN_DROP = (
    Point("stream_jobs.replay.promote:forget"),  # its rows are out of the live database
    Point("infra.stack.kafka:delete_topics"),
    Point("stream_jobs.replay.databases:drop"),
    Point("shutil:rmtree"),  # a part of its folder is gone
    Point("shutil:rmtree"),  # all that its jobs wrote
)


def test_what_serving_reads_is_all_of_a_promotion_or_nothing_wherever_it_is_killed(lane: Lane) -> None:
    live_url = lane.endpoints.db_owner_url
    run = run_of(f"k{uuid.uuid4().hex[:8]}", hour(0), 3)
    own_url = with_name(live_url, run.database)
    with connected(live_url) as live, database_of(lane, run) as own:
        for vehicle in (1, 2):
            windows(live, vehicle, [hour(h) for h in range(4)], 1.0)
            windows(own, vehicle, [hour(h) for h in range(4)], 2.0)
        alert(own, 1, "new", hour(1))
        before, live_metres = definitions(live), metres(lane)

        for point in BEFORE_IT_IS_READ:
            kill_at(point, promote_alone, live_url, own_url, run)
            assert metres(lane) == live_metres, point
            assert definitions(live) == before, point
        kill_at(
            Point("stream_jobs.replay.promote:promote"), promote_alone, live_url, own_url, run
        )  # after its end
        run_metres = [(v, h, 2.0 if h < 3 else 1.0) for v in (1, 2) for h in range(4)]
        assert metres(lane) == run_metres
        reading = definitions(live)
        assert promote.promote(live, own, run) == 0
        assert definitions(live) == reading

        for point in BEFORE_IT_IS_BACK:
            kill_at(point, roll_back_alone, live_url, run.run_id)
            assert metres(lane) == run_metres, point
            assert definitions(live) == reading, point
        promote.rollback(live, run.run_id)
        assert metres(lane) == live_metres
        assert definitions(live) == before
        promote.forget(live, run)


def test_a_drop_that_was_killed_is_finished_by_the_same_command(lane: Lane) -> None:
    home, live_url = lane.settings.paths.home, lane.endpoints.db_owner_url
    run = replace(run_of(f"k{uuid.uuid4().hex[:8]}", hour(0), 3), state="done")
    prefix = f"{lane.settings.kafka.prefix}run-{run.run_id}."
    databases.create(live_url, run.database)
    create_topics(lane.endpoints.kafka_bootstrap, prefix, for_ever=True)
    runs.save(home, run)
    folder = runs.folder_of(home, run.run_id)
    shared = home / "shared"
    lane = replace(lane, env=lane.env | {"ODOGRAPH_PATHS_CHECKPOINTS": str(shared / "checkpoints")})
    beside = shared / f"checkpoints.{run.run_id}"
    for path in (folder / "checkpoints", folder / "lookups", beside, shared / "checkpoints"):
        path.mkdir(parents=True)
        (path / "file").write_text("1")
    with connected(live_url) as live, connected(with_name(live_url, run.database)) as own:
        windows(own, 1, [hour(h) for h in range(3)], 2.0)
        promote.promote(live, own, run)
        promote.rollback(live, run.run_id)

    for point in WITHIN_DROP:
        kill_at(point, drop_alone, lane.env, run.run_id)
        assert [known.run_id for known in runs.all_runs(home)] == [run.run_id], point

    again = lane.run("replay", "drop", run.run_id)
    assert again.returncode == 0, again.stderr
    assert runs.all_runs(home) == []
    assert not folder.exists()
    assert [path.name for path in shared.iterdir()] == ["checkpoints"]
    assert len(missing_topics(lane.endpoints.kafka_bootstrap, prefix)) == len(KAFKA_TOPICS)
    with connected(live_url) as live:
        left = "SELECT datname FROM pg_database WHERE datname = %s UNION ALL "
        left += "SELECT nspname FROM pg_namespace WHERE nspname = %s"
        assert live.execute(left, (run.database, run.schema)).fetchall() == []
        assert promote.state_of(live, run.run_id) is None
