"""What is no answer is told as what it is, and no error of another kind."""

from __future__ import annotations

import socket
import threading
from pathlib import Path

import pytest

from infra.contract.errors import ServiceError
from infra.stack import probes
from infra.stack.access.identity import SERVICES, Authority


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (b"220 mail\r\n", "BadStatusLine"),
        (b"HTTP/1.0 503 x\r\nContent-Length: 9\r\n\r\nhalf", "IncompleteRead"),
    ],
)
def test_what_is_not_http_or_half_of_it_is_no_answer(said: bytes, told: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            with server.accept()[0] as asked:
                asked.recv(4096)
                asked.sendall(said)

        thread = threading.Thread(target=answer)
        thread.start()
        port = server.getsockname()[1]
        reason, remark = probes.readiness(port)
        thread.join()
    assert (f"no answer on {port} (no HTTP: {told}" in str(reason), remark) == (True, None)


def test_a_server_that_stands_still_before_tls_takes_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probes, "TIMEOUT_S", 0.05)
    ca = Authority(tmp_path, SERVICES).folder / "ca.pem"
    with socket.create_server(("127.0.0.1", 0)) as still, pytest.raises(ServiceError, match="no TLS by our"):
        probes.tls_server(still.getsockname()[1], str(ca))


def test_what_a_foreign_server_says_in_another_encoding_is_shown_as_far_as_it_can_be() -> None:
    assert probes._reasons("Dienst läuft nicht".encode("latin-1")) == "Dienst l\ufffduft nicht"
