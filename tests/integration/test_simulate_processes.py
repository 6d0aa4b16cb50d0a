"""``odograph simulate --processes``: one run to the outside, whatever becomes of a part."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import orjson
import pytest

from tests import forked
from tests.integration.broker_support import Broker, Listener, reached_at
from tests.support import eventually

pytestmark = pytest.mark.integration


def children(pid: int) -> list[int]:
    """The simulating processes that ``pid`` started, the first part's first."""
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(k) for k in found if b"spawn_main" in Path(f"/proc/{k}/cmdline").read_bytes()]


def test_the_parts_make_one_fleet_and_one_summary(broker: Broker) -> None:
    with Listener("parts").listening(broker.port) as listener:
        summary = broker.run(
            "simulate", "-c", "30", "--rate", "150", "--duration", "2s", "--processes", "2",
            "--run-id", "two", "--fault", "overheating=3",
        )  # fmt: skip
        assert summary["finished"] is True
        assert (summary["vehicles"], summary["processes"], summary["parts"]) == (30, 2, ["two.0", "two.1"])
        assert summary["generated"] == summary["sent"] == summary["acked"] == 300
        eventually(lambda: len(listener.channel("telemetry", summary["boot_id"])) == 300, 60, "300 frames")
        found = listener.sequences(summary["boot_id"])
        assert len(found) == 30
        assert all(seqs == list(range(10)) for seqs in found.values())
    folder = broker.home / "runs" / "two"
    assert orjson.loads((folder / "run.json").read_bytes()) == summary
    rows = [orjson.loads(line) for line in (folder / "truth.jsonl").read_bytes().splitlines()]
    faults = [row for row in rows if row["kind"] == "fault"]
    assert [row["fault"] for row in faults] == ["overheating"] * 3
    assert len({row["fault_id"] for row in faults}) == 3


def test_ctrl_c_ends_all_parts_with_everything_acknowledged(broker: Broker) -> None:
    with Listener("parts-stopped").listening(broker.port) as listener:
        run = broker.command("simulate", "-c", "20", "--processes", "2", "--json")
        eventually(lambda: len(listener.reporting()) == 20, 120, "frames of both parts")
        run.send_signal(signal.SIGINT)
        out, err = run.communicate(120)
        assert run.returncode == 0, err
        summary = orjson.loads(out)
        assert summary["finished"] is True
        assert summary["generated"] == summary["acked"]


def test_a_part_that_dies_is_named_and_the_others_end(broker: Broker) -> None:
    with Listener("parts-dead").listening(broker.port) as listener:
        run = broker.command("simulate", "-c", "20", "--processes", "2", "--run-id", "dies")
        eventually(lambda: len(listener.reporting()) == 20, 120, "frames of both parts")
        os.kill(children(run.pid)[1], signal.SIGKILL)
        _, err = run.communicate(120)
    assert run.returncode == 1
    assert "process dies.1 (vehicles 10 to 19) ended with code -9" in err


def test_the_parts_end_when_the_parent_is_killed(broker: Broker) -> None:
    with Listener("parts-orphans").listening(broker.port) as listener:
        run = broker.command("simulate", "-c", "20", "--processes", "2")
        eventually(lambda: len(listener.reporting()) == 20, 120, "frames of both parts")
        pids = children(run.pid)
        assert len(pids) == 2
        run.kill()
        run.communicate()
        eventually(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids), 60, "the end of the parts")


def test_a_part_without_a_broker_says_so(tmp_path: Path) -> None:
    reached_at(tmp_path, 1)
    env = {**os.environ, "ODOGRAPH_PATHS_HOME": str(tmp_path)}
    run = forked.run(("simulate", "-c", "4", "--processes", "2", "--duration", "1s"), env, 60)
    assert run.returncode == 1
    assert "[0] error: no MQTT broker at mqtt://127.0.0.1:1" in run.stderr
    assert "Traceback" not in run.stderr
