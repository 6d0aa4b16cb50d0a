"""A drop ends at any point by SIGKILL: the run is still known, and dropping it again leaves nothing of it."""

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
from tests.integration.promotion_support import drop_alone, hour, run_of, windows
from tests.support import Lane

pytestmark = pytest.mark.integration

POINTS = (
    Point("stream_jobs.replay.promote:forget"),  # its rows are out of the live database
    Point("infra.stack.kafka:delete_topics"),
    Point("stream_jobs.replay.databases:drop"),
    Point("shutil:rmtree"),  # a part of its folder is gone
    Point("stream_jobs.replay.shadow:_empty"),
)


def test_a_drop_that_was_killed_is_finished_by_the_same_command(lane: Lane) -> None:
    home, live_url = lane.settings.paths.home, lane.endpoints.db_owner_url
    run = replace(run_of(f"k{uuid.uuid4().hex[:8]}", hour(0), 3), state="done")
    prefix = f"{lane.settings.kafka.prefix}run-{run.run_id}."
    databases.create(live_url, run.database)
    create_topics(lane.endpoints.kafka_bootstrap, prefix, for_ever=True)
    runs.save(home, run)
    folder = runs.folder_of(home, run.run_id)
    for name in ("checkpoints", "lookups"):
        (folder / name).mkdir()
        (folder / name / "file").write_text("1")
    with connected(live_url) as live, connected(with_name(live_url, run.database)) as own:
        windows(own, 1, [hour(h) for h in range(3)], 2.0)
        promote.promote(live, own, run)
        promote.rollback(live, run.run_id)

    for point in POINTS:
        kill_at(point, drop_alone, lane.env, run.run_id)
        assert [known.run_id for known in runs.all_runs(home)] == [run.run_id], point

    again = lane.run("replay", "drop", run.run_id)
    assert again.returncode == 0, again.stderr
    assert runs.all_runs(home) == []
    assert not folder.exists()
    assert len(missing_topics(lane.endpoints.kafka_bootstrap, prefix)) == len(KAFKA_TOPICS)
    with connected(live_url) as live:
        left = "SELECT datname FROM pg_database WHERE datname = %s UNION ALL "
        left += "SELECT nspname FROM pg_namespace WHERE nspname = %s"
        assert live.execute(left, (run.database, run.schema)).fetchall() == []
        assert promote.state_of(live, run.run_id) is None
