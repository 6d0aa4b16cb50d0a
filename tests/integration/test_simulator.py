"""The simulator against a real broker: everything acknowledged, received, in order; a restart loses nothing.

The broker is this module's own, since it is stopped and started again here.
"""

from __future__ import annotations

import os
import signal
import socket
from pathlib import Path

import orjson
import pytest

from edge_simulator import scenario
from edge_simulator.console import now_ms
from edge_simulator.sending.run import RunOptions, publish
from infra.contract import frame, messages
from infra.settings.settings import load
from load_tests.drills.link import Link
from tests import forked
from tests.integration.broker_support import ROOT, Broker, Listener, reached_at, simulated
from tests.support import eventually

pytestmark = pytest.mark.integration
CLIENTS = ("paho", "lean")


def test_every_frame_is_acknowledged_and_received_in_each_vehicles_order(broker: Broker) -> None:
    with Listener("plain").listening(broker.port) as listener:
        summary = broker.run(
            "simulate", "-c", "50", "--rate", "250", "--duration", "2s", "--connections", "3",
            "--fault", "crash=2",
        )  # fmt: skip
        assert summary["finished"] is True
        assert summary["generated"] == summary["sent"] == summary["acked"] == 500
        eventually(lambda: len(listener.channel("telemetry", summary["boot_id"])) == 500, 60, "500 frames")
        found = listener.sequences(summary["boot_id"])
        assert len(found) == 50
        assert all(seqs == list(range(10)) for seqs in found.values())
        crashes = eventually(lambda: listener.channel("crash", summary["boot_id"]), 60, "a crash record")
        assert all(messages.decode_crash(c) for c in crashes)
        states = [messages.decode_status(p)["state"] for p in listener.channel("status", summary["boot_id"])]
        assert states == ["online"] * 50 + ["offline"] * 50


@pytest.mark.parametrize("client", CLIENTS)
def test_a_restart_of_the_broker_loses_nothing(broker: Broker, client: str) -> None:
    with Listener(f"outlives-{client}").listening(broker.port) as listener:
        run = broker.command(
            "simulate", "-c", "40", "--rate", "200", "--duration", "5s", "--client", client, "--json"
        )
        eventually(lambda: len(listener.channel("telemetry")) > 300, 90, "a flow of frames")
        broker.stop()
        broker.start()
        out, err = run.communicate(120)
        summary = orjson.loads(out)
        assert summary["finished"] is True, err
        assert summary["generated"] == summary["acked"] == 1000
        assert summary["reconnects"] >= 1
        eventually(
            lambda: sum(map(len, listener.sequences(summary["boot_id"]).values())) == 1000, 90, "all frames"
        )
        assert all(seqs == list(range(25)) for seqs in listener.sequences(summary["boot_id"]).values())


def test_what_was_sent_is_on_the_disk_with_what_befell_it(broker: Broker) -> None:
    with Listener("logged").listening(broker.port) as listener:
        summary = broker.run(
            "simulate", "-c", "20", "-I", "250ms", "--duration", "2.5s", "--seed", "9", "--run-id", "logged",
            "--log-frames", "--late", "0.1", "--duplicate", "0.1", "--disorder", "0.1", "--lost", "0.05",
            "--poison", "0.05", "--fault", "rapid_leak=1",
        )  # fmt: skip
        folder = broker.home / "runs" / "logged"
        assert orjson.loads((folder / "run.json").read_bytes()) == summary
        lines = [orjson.loads(line) for line in (folder / "frames.jsonl").read_bytes().splitlines()]
        frames = [line for line in lines if line["channel"] == "telemetry" and line["flag"] != "poison"]
        identities = {(f["payload"]["vehicle_id"], f["payload"]["seq"]) for f in frames}
        assert summary["generated"] == 200
        assert len(identities) == summary["generated"] - summary["lost_on_link"]
        assert len(frames) == summary["sent"] == summary["acked"]
        assert sum(f["copy"] for f in frames) == summary["link"]["duplicate"] > 0
        assert sum(line["flag"] == "poison" for line in lines) == summary["poison"] > 0
        total = summary["sent"] + summary["poison"]
        eventually(lambda: len(listener.channel("telemetry")) == total, 60, f"{total} messages")
        truth = [orjson.loads(line) for line in (folder / "truth.jsonl").read_bytes().splitlines()]
        assert [row["fault"] for row in truth if row["kind"] == "fault"] == ["rapid_leak"]


def test_ctrl_c_finishes_what_is_in_flight_and_prints_the_summary(broker: Broker) -> None:
    with Listener("stopped").listening(broker.port) as listener:
        run = broker.command("simulate", "-c", "20", "--late", "0.2", "--json")
        eventually(lambda: len(listener.channel("telemetry")) > 30, 90, "a flow of frames")
        run.send_signal(signal.SIGINT)
        out, err = run.communicate(120)
        summary = orjson.loads(out)
        assert run.returncode == 0, err
        assert summary["finished"] is True
        assert summary["generated"] == summary["acked"]
        eventually(lambda: len(listener.channel("telemetry")) == summary["acked"], 60, "all frames")


@pytest.mark.parametrize("client", CLIENTS)
def test_with_a_connection_each_a_killed_device_is_told_of_by_its_last_will(
    broker: Broker, client: str
) -> None:
    with Listener(f"will-{client}").listening(broker.port) as listener:
        stages = "stages=[{for: 2s, ramp_to: 5}, {for: 5m, rate: 5}]"
        fleet = ("-c", "5", "--connections", "per-vehicle", "--set", stages)
        run = broker.command("simulate", *fleet, "--client", client)
        eventually(lambda: len(listener.reporting()) == 5, 90, "all are on line, one after the other")
        run.kill()
        run.communicate()
        boot_id = frame.decode(listener.channel("telemetry")[-1])["boot_id"]

        def ended() -> int:
            told = [messages.decode_status(p) for p in listener.channel("status", boot_id)]
            return sum(status["state"] == "offline" for status in told)

        eventually(lambda: ended() == 5, 60, "five last wills")


def test_a_live_run_begins_when_all_are_connected_and_stamps_what_it_sends_then(
    broker: Broker, tmp_path: Path
) -> None:
    with Link("127.0.0.1", broker.port) as link, Listener("begins").listening(broker.port) as listener:
        reached_at(tmp_path, link.port)
        in_force = load(paths={"home": str(tmp_path)}, mqtt={"root": ROOT})
        wanted = scenario.read(None, in_force, {"vehicles": 3, "limit": 3})

        def connected() -> int:
            assert len(link.heard) == 3
            return now_ms()

        names = ["begins-0", "begins-1", "begins-2"]
        options = RunOptions("begins", ROOT, 20_000, 15.0, clients=names, live=True)
        summary = publish(in_force, wanted, options, begin_ms=connected)
        assert summary["boot_id"] == wanted.start_ms < summary["start_ms"]
        eventually(lambda: len(listener.channel("telemetry", wanted.start_ms)) == 3, 60, "3 frames")
        frames = [frame.decode(p) for p in listener.channel("telemetry", wanted.start_ms)]
        assert min(f["t0_ms"] for f in frames) > summary["start_ms"]


def test_there_are_more_connections_than_files_that_a_process_may_open_at_first(broker: Broker) -> None:
    fleet = ("-c", "80", "--limit", "80", "--connections", "per-vehicle")
    told = simulated(broker.home, *fleet, before=("prlimit", "--nofile=64:"))["messages"]
    assert told["acked"] == told["sent"] >= 80


def test_recorded_drives_are_sent_like_any_vehicles_frames(broker: Broker, tmp_path: Path) -> None:
    rows = [f"03/29/2021,11:00:{k:02},87.5,36,D,{34 + k * 9e-5:.6f},-6.7,140,0,20,40" for k in range(25)]
    header = "Date,Time,Soc,Speed,Mode,LAT,LON,ALT,GpsSpeed,Temperature,SpeedLimit"
    (tmp_path / "trip.csv").write_text("\n".join([header, *rows]) + "\n")
    with Listener("drives").listening(broker.port) as listener:
        summary = broker.run("replay", "--drives", str(tmp_path), "--speed", "20", "--into", "live")
        assert (summary["generated"], summary["acked"], summary["finished"]) == (3, 3, True)
        (drive,) = summary["drives"]
        assert (drive["rows"], drive["samples"], drive["frames"]) == (25, 25, 3)
        assert drive["distance_by_speed_m"] == 240.0
        eventually(lambda: len(listener.channel("telemetry", drive["boot_id"])) == 3, 60, "3 frames")
        frames = [frame.decode(p) for p in listener.channel("telemetry", drive["boot_id"])]
        assert [f["n"] for f in frames] == [10, 10, 5]


def test_without_a_broker_the_command_says_so_and_ends_with_1(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    reached_at(tmp_path, port)
    env = {**os.environ, "ODOGRAPH_PATHS_HOME": str(tmp_path)}
    run = forked.run(("simulate", "-c", "5", "--duration", "1s"), env, 60)
    assert run.returncode == 1
    assert f"no MQTT broker at mqtt://127.0.0.1:{port}" in run.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--rate", "-5"), "--rate -5"),
        (("--rate", "5", "-I", "1s"), "exclude each other"),
        (("--fault", "nonsense=1"), "no fault 'nonsense'"),
        (("--connections", "none"), "--connections none"),
        (("--start-ms", "-1"), "Invalid value for '--start-ms'"),
        (("--start-ms", "100000000000000000"), "Invalid value for '--start-ms'"),
    ],
)
def test_wrong_options_are_one_clear_line_and_exit_2(options: tuple[str, ...], message: str) -> None:
    run = forked.run(("simulate", *options), os.environ, 60)
    assert run.returncode == 2
    assert message in run.stderr
    assert "Traceback" not in run.stderr
