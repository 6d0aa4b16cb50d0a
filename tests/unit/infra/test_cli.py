"""How the command ends: one message for people, a trace for a program's log."""

from __future__ import annotations

import errno
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import structlog

from infra import cli
from infra.contract.errors import ServiceError

DENIED = PermissionError(errno.EACCES, "Permission denied", "/a/file\x1b[2J")
FULL = OSError(errno.ENOSPC, "No space left on device")


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(cli, "PACKAGES", ())
    monkeypatch.setattr(cli.atexit, "register", lambda _: None)  # of the tests' own process
    monkeypatch.setattr(warnings, "formatwarning", warnings.formatwarning)


def fails(monkeypatch: pytest.MonkeyPatch, error: Exception, *, is_program: bool = False) -> None:
    def app() -> None:
        raise error

    monkeypatch.setattr(cli, "app", app)
    monkeypatch.setattr(structlog, "is_configured", lambda: is_program)
    cli.main()


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (DENIED, "error: [Errno 13] Permission denied: '/a/file\\x1b[2J'\n"),
        (FULL, "error: [Errno 28] No space left on device\n"),
        (ServiceError("Kafka: away"), "error: Kafka: away\n"),
    ],
)
def test_a_file_and_a_full_disk_are_told_in_a_line_as_our_own_errors_are(
    error: Exception, told: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        fails(monkeypatch, error)
    assert (ended.value.code, capsys.readouterr().err) == (1, told)


def test_an_argument_that_is_no_text_is_told_where_it_cannot_be_sent(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    refused = UnicodeEncodeError("utf-8", "\udcff", 0, 1, "surrogates not allowed")
    monkeypatch.setattr(sys, "argv", ["odograph", "trips", "V\udcff"])
    with pytest.raises(SystemExit) as ended:
        fails(monkeypatch, refused)
    assert (ended.value.code, capsys.readouterr().err) == (2, "error: V\\udcff: no UTF-8 text\n")
    monkeypatch.setattr(sys, "argv", ["odograph", "trips"])
    with pytest.raises(UnicodeEncodeError):
        fails(monkeypatch, refused)


def test_a_programs_log_keeps_the_trace_and_so_does_what_names_no_file(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(PermissionError):
        fails(monkeypatch, DENIED, is_program=True)
    with pytest.raises(ConnectionResetError):
        fails(monkeypatch, ConnectionResetError(errno.ECONNRESET, "reset"))


def test_nothing_is_told_behind_an_error_of_what_a_thread_still_has(tmp_path: Path) -> None:
    script = tmp_path / "ends.py"
    script.write_text(
        "import atexit, sys, threading, time\n"
        "from infra import cli\n"
        "atexit.register(cli._quiet_end)\n"
        "import duckdb\n"
        "holds = threading.Thread(target=lambda c: time.sleep(60), args=(duckdb.connect(),), daemon=True)\n"
        "holds.start()\n"
        "sys.exit('error: the last word')\n"
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "error: the last word\n")
