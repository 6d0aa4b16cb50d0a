"""What a run leaves in ``<home>/runs/<run_id>/``: run.json, truth.jsonl and, on request, frames.jsonl."""

import base64
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Self

import orjson

from edge_simulator.telemetry.outbox import Outgoing
from infra.contract.errors import ConfigError
from infra.settings.files import write_whole


def run_name(text: str) -> str:
    """A run's id, if a folder can have it for its name; raises ConfigError."""
    if text in ("", ".", "..") or "/" in text:
        raise ConfigError(f"--run-id {text!r}: the name of a folder is wanted, without /")
    return text


class RunFiles:
    """The files of one run; use as a context manager."""

    def __init__(self, home: Path, run_id: str, log_frames: bool) -> None:
        self.folder = home / "runs" / run_name(run_id)
        self._log_frames = log_frames

    def __enter__(self) -> Self:
        try:
            self.folder.mkdir(parents=True)
        except FileExistsError as error:
            raise ConfigError(f"--run-id: {self.folder} exists; give another id or remove it") from error
        self._truth = (self.folder / "truth.jsonl").open("wb")
        self._frames = (self.folder / "frames.jsonl").open("wb") if self._log_frames else None
        return self

    def truth(self, rows: Iterable[Mapping[str, Any]]) -> None:
        self._truth.writelines(orjson.dumps(row) + b"\n" for row in rows)

    def frames(self, items: Iterable[Outgoing]) -> None:
        """Put messages that are about to be sent on the disk: one line each, with what befell it."""
        if self._frames is None:
            return
        lines = []
        for item in items:
            head = {"channel": item.channel, "flag": item.flag, "copy": item.copy, "due_ms": item.due_ms}
            poison = item.flag == "poison"
            body = b'"' + base64.b64encode(item.payload) + b'"' if poison else item.payload
            name = b"payload_b64" if poison else b"payload"
            lines.append(orjson.dumps(head)[:-1] + b',"' + name + b'":' + body + b"}\n")
        if lines:
            self._frames.writelines(lines)
            self._frames.flush()
            os.fdatasync(self._frames.fileno())

    def sync(self, summary: Mapping[str, Any]) -> None:
        """Put everything on the disk, and the summary as run.json, whole or not at all."""
        for file in filter(None, (self._truth, self._frames)):
            file.flush()
            os.fsync(file.fileno())
        write_whole(self.folder / "run.json", orjson.dumps(summary, option=orjson.OPT_INDENT_2) + b"\n")

    def __exit__(self, *_error: object) -> None:
        for file in filter(None, (self._truth, self._frames)):
            file.close()


def write_sequences(folder: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """``sequences.jsonl`` of a run or a day: a line a device (telemetry/outbox.py)."""
    write_whole(folder / "sequences.jsonl", b"".join(orjson.dumps(row) + b"\n" for row in rows))
