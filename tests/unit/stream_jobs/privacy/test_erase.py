"""What a broker answers when a vehicle's retained status is taken back, and how it is told."""

from __future__ import annotations

import socket
import threading
from pathlib import Path

import pytest

from infra.contract.errors import ConfigError
from infra.settings.settings import Endpoints, Settings, load
from stream_jobs.privacy import erase
from stream_jobs.privacy.erase import Erased

VIN = "1HGCM82633A000001"
TAKEN_IN = b"\x20\x03\x00\x00\x00"  # CONNACK of MQTT 5
NOT_AUTHORIZED = b"\x40\x03\x00\x01\x87"  # PUBACK of the first message


@pytest.mark.parametrize(
    ("answer", "why"), [(b"", "no answer in 0.2 s"), (NOT_AUTHORIZED, "/status was refused: Not authorized")]
)
def test_a_status_that_the_broker_may_keep_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: bytes, why: str
) -> None:
    monkeypatch.setattr(erase, "TAKEN_S", 0.2 if not answer else 60.0)
    monkeypatch.setattr(erase, "BRIDGED_S", 0.0)
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.sendall(TAKEN_IN)
                heard = b""
                while b"/status" not in heard and (some := connection.recv(4096)):
                    heard += some
                connection.sendall(answer)
                while connection.recv(4096):  # until the vehicle goes
                    pass

        broker = threading.Thread(target=serve)
        broker.start()
        where = Endpoints("127.0.0.1", server.getsockname()[1], "", "", "", "")
        found = Erased("ERASEDO0123456789")
        erase._taken_back(load(paths={"home": str(tmp_path)}), where, VIN, found)
        broker.join()
    (remark,) = found.remarks
    assert remark.endswith(why)
    assert "may retain the vehicle's status" in remark


def test_records_that_a_killed_replay_had_taken_out_of_the_log_are_dropped_before(tmp_path: Path) -> None:
    (tmp_path / "replays" / "r1" / "input").mkdir(parents=True)
    with pytest.raises(ConfigError, match="drop them first: odograph replay drop r1"):
        erase.erase(Settings(paths={"home": tmp_path}), VIN, 1.0, lambda _: None)
