"""Which spans of a back-fill are restated: a file beside the archive, so that one that was killed goes on."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import orjson

from infra.archive.manifest import sync
from stream_jobs.recompute.plan import Span

FOLDER: Final = "backfills"


@dataclass(frozen=True, slots=True)
class Progress:
    """Of the back-fill of one day."""

    path: Path

    @classmethod
    def of(cls, archive: Path, name: str) -> Progress:
        """The file of a day's name."""
        return cls(archive / FOLDER / f"{name}.json")

    def begin(self, fresh: bool) -> None:
        """Forget what was done where files came in since."""
        if fresh:
            self.path.unlink(missing_ok=True)

    def left(self, spans: list[Span]) -> list[Span]:
        """Spans that are not restated yet."""
        done = self._done()
        return [span for span in spans if [span.from_ms, span.until_ms] not in done]

    def note(self, span: Span) -> None:
        """A span is restated."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        draft = self.path.with_suffix(".draft")
        draft.write_bytes(orjson.dumps({"restated_ms": [*self._done(), [span.from_ms, span.until_ms]]}))
        sync(draft)
        draft.replace(self.path)

    def _done(self) -> list[list[int]]:
        if not self.path.exists():
            return []
        found: list[list[int]] = orjson.loads(self.path.read_bytes())["restated_ms"]
        return found
