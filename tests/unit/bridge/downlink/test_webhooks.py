"""Webhooks: the file, the signature, what an answer means, one POST to a server that misbehaves."""

from __future__ import annotations

import random
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.downlink import webhooks
from bridge.downlink.webhooks import Answer, pause_s, post
from infra.contract.errors import ConfigError

SECRET = b"0123456789abcdef"
NOW = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)


def written(folder: Path, text: str, mode: int = 0o600) -> Path:
    secret = folder / "ops.secret"
    secret.write_bytes(SECRET + b"\n")
    secret.chmod(mode)
    file = folder / "hooks.toml"
    file.write_text(text)
    return file


ONE = '[[webhook]]\nname = "ops"\nurl = "https://example.org/x"\nsecret_file = "ops.secret"\n'


def test_a_file_of_webhooks_has_its_defaults_and_its_secret_shows_nowhere(tmp_path: Path) -> None:
    (hook,) = webhooks.load(written(tmp_path, ONE))
    assert (hook.name, hook.min_severity, hook.timeout_s, hook.give_up_s) == ("ops", "MAJOR", 10, 300)
    assert hook.secret == SECRET
    assert "0123" not in repr(hook)
    assert "example" not in repr(hook)
    assert webhooks.load(None) == ()


@pytest.mark.parametrize(
    ("text", "mode", "told"),
    [
        (ONE, 0o640, "chmod 600"),
        (ONE.replace("ops.secret", "none"), 0o600, "No such file"),
        (ONE.replace("https://example.org", "ftp://example.org"), 0o600, "ops: url"),
        (ONE.replace("example.org", "[::1"), 0o600, "ops: url"),
        (ONE.replace("org/x", "org/a b"), 0o600, "ops: url"),
        (ONE.replace("org/x", "org/x#part"), 0o600, "ops: url"),
        (ONE + ONE, 0o600, "a name of its own"),
        (ONE.replace('"ops"', '"vehicles"'), 0o600, "a name of its own"),
        (ONE + 'colour = "red"\n', 0o600, "webhook.0.colour"),
        ("[[webhook\n", 0o600, "hooks.toml"),
    ],
)
def test_a_wrong_file_is_one_clear_error(tmp_path: Path, text: str, mode: int, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        webhooks.load(written(tmp_path, text, mode))


def test_a_signature_is_the_documented_one() -> None:
    # printf '1700000000\na1\n{}' | openssl dgst -sha256 -hmac 0123456789abcdef
    expected = "v2=ddea92533000f225bcd09064da53d13fde99c44f5a7dffeac38fd383eff4bad5"
    assert webhooks.sign(SECRET, "a1", 1_700_000_000, b"{}") == expected


def test_a_receiver_refuses_a_changed_body_another_secret_an_old_timestamp_and_another_key() -> None:
    told = webhooks.signed_headers(SECRET, "a1", 1_700_000_000, b"{}")
    assert told["Idempotency-Key"] == "a1"
    assert webhooks.genuine(SECRET, told, b"{}", 1_700_000_300)
    assert not webhooks.genuine(SECRET, told, b"{} ", 1_700_000_000)
    assert not webhooks.genuine(b"another secret!!", told, b"{}", 1_700_000_000)
    assert not webhooks.genuine(SECRET, told, b"{}", 1_700_000_301)
    assert not webhooks.genuine(SECRET, told | {"Odograph-Timestamp": "1700000001"}, b"{}", 1_700_000_000)
    assert not webhooks.genuine(SECRET, {}, b"{}", 1_700_000_000)
    assert not webhooks.genuine(SECRET, told | {"Idempotency-Key": "a2"}, b"{}", 1_700_000_000)
    assert not webhooks.genuine(SECRET, told | {"Idempotency-Key": "a"}, b"1\n{}", 1_700_000_000)


@pytest.mark.parametrize(
    ("status", "outcome"),
    [(200, "accepted"), (204, "accepted"), (0, "again"), (500, "again"), (503, "again"), (429, "again"),
     (408, "again"), (400, "refused"), (401, "refused"), (404, "refused"), (302, "refused")],
)  # fmt: skip
def test_what_an_answer_means(status: int, outcome: str) -> None:
    assert Answer(status).outcome == outcome


def test_pauses_double_up_to_a_minute_and_half_of_each_is_drawn() -> None:
    chance = random.Random(1)
    for attempt, whole_s in ((1, 0.5), (2, 1.0), (4, 4.0), (8, 60.0), (40, 60.0)):
        drawn = {pause_s(attempt, Answer(500), NOW, chance) for _ in range(50)}
        assert len(drawn) > 40
        assert whole_s / 2 <= min(drawn) <= max(drawn) <= whole_s


def test_a_receiver_that_says_when_is_not_asked_earlier() -> None:
    chance = random.Random(1)
    assert pause_s(1, Answer(429, "7"), NOW, chance) == 7.0
    assert pause_s(1, Answer(503, "Sat, 21 Nov 2026 12:01:30 GMT"), NOW, chance) == 90.0
    assert pause_s(1, Answer(503, "soon"), NOW, chance) <= 0.5


ABSURD = [
    "Sat, 21 Nov 2026 12:01:30 +99999999", "Sat, 21 Nov 2026 12:01:30 -9999999999999999999",
    "Fri, 31 Dec 9999 23:59:59 -2300", "Mon, 01 Jan 0001 00:00:00 +2300", "9" * 60_000, "-5", "1e400", "nan",
    "\u0663", "", "\x00", "Sat, 99 Nov 99999999999999999999 12:01:30 GMT",
]  # fmt: skip


@pytest.mark.parametrize("text", ABSURD, ids=range(len(ABSURD)))
def test_no_retry_after_makes_a_wait_that_is_none_or_longer_than_a_day(text: str) -> None:
    assert 0.25 <= pause_s(1, Answer(503, text), NOW, random.Random(1)) <= 86_400


@given(
    st.text(st.sampled_from('0123456789:+- ,.()"GMTSatNov\u0663\x00')).map(
        "Sat, 21 Nov 2026 12:01:30 ".__add__
    )
)
def test_whatever_a_receiver_says_the_wait_is_bounded(text: str) -> None:
    assert 0.25 <= pause_s(1, Answer(503, text), NOW, random.Random(1)) <= 86_400


@contextmanager
def a_server(answer: bytes, endless: bool = False) -> Iterator[int]:
    """Takes one request and says ``answer``; ``endless``: a byte at a time, for ever."""
    done = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            visitor, _ = server.accept()
            with visitor:
                visitor.recv(65536)
                visitor.sendall(answer)
                while endless and not done.wait(0.05):
                    try:
                        visitor.sendall(b"x")
                    except OSError:
                        return

        guard = threading.Thread(target=serve)
        guard.start()
        yield server.getsockname()[1]
        done.set()
        guard.join()


def test_an_answer_is_its_status_and_when_to_come_again() -> None:
    with a_server(b"HTTP/1.1 429 Slow\r\nRetry-After: 3\r\nContent-Length: 0\r\n\r\n") as port:
        assert post(urlsplit(f"http://127.0.0.1:{port}/in?a=1"), {}, b"{}", 5.0) == Answer(429, "3")


@pytest.mark.parametrize("head", ["X: ", "Connection: close\r\n\r\n"], ids=["header", "body to the end"])
def test_a_server_that_drips_a_byte_now_and_then_is_left_at_the_deadline(head: str) -> None:
    with a_server(b"HTTP/1.1 200 OK\r\n" + head.encode(), endless=True) as port:
        answer = post(urlsplit(f"http://127.0.0.1:{port}/"), {}, b"{}", 0.3)
    assert (answer.status, str(answer)) == (0, "no answer within 0.3 s")


@pytest.mark.parametrize(
    "answer",
    [
        b"x" * 200_000,
        b"HTTP/1.1 " + b"9" * 60_000 + b" OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 200,
        b"HTTP/1.1 200 OK\r\nX: " + b"y" * 70_000,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    ],
    ids=["no status line", "long status", "many headers", "long header", "no chunk"],
)
def test_an_answer_that_is_none_is_tried_again_and_is_told_in_few_words(answer: bytes) -> None:
    with a_server(answer) as port:
        found = post(urlsplit(f"http://127.0.0.1:{port}/"), {}, b"{}", 2.0)
    assert found.outcome == "again"
    assert 0 < len(found.trouble) <= 200


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999\r\n\r\n" + b"x" * 100_000,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffff\r\n" + b"x" * 100_000,
    ],
    ids=["long body", "long chunk"],
)
def test_of_a_body_without_end_no_more_than_64_kb_is_read(answer: bytes) -> None:
    with a_server(answer, endless=True) as port:
        assert post(urlsplit(f"http://127.0.0.1:{port}/"), {}, b"{}", 5.0) == Answer(200)


def test_a_redirect_is_not_followed_and_final() -> None:
    with a_server(b"HTTP/1.1 307 Go\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n") as port:
        assert post(urlsplit(f"http://127.0.0.1:{port}/"), {}, b"{}", 5.0).outcome == "refused"


def test_nobody_there_is_an_answer_too() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    answer = post(urlsplit(f"http://127.0.0.1:{port}/"), {}, b"{}", 1.0)
    assert answer.outcome == "again"
    assert "refused" in str(answer)
