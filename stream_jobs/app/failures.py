"""What a query's failure says to people: its first cause, and the way out of a broken checkpoint; pure."""

from __future__ import annotations

from pathlib import Path
from typing import Final

CAUSED_BY: Final = "Caused by: "
NO_SPACE: Final = "No space left on device"
BROKEN: Final = ("CHECKSUM", "ChecksumException", "CANNOT_LOAD_STATE_STORE", "CANNOT_READ_STREAMING_STATE")
"""Words of Spark's and Hadoop's errors on files that are not as they were written."""
LINES: Final = 3
CHARS: Final = 1000


def explained(query: str, checkpoint: Path, error: object) -> str:
    """The failure of a query in one line."""
    text = str(error).strip() if error else "ended without an error"
    advice = _advice(query, checkpoint, text)
    return f"query {query}: {_reason(text)}" + (f"; {advice}" if advice else "")


def _reason(text: str) -> str:
    """The innermost cause where Java tells of causes, else the first lines."""
    lines = [line.strip() for line in text.splitlines()]
    causes = [line.removeprefix(CAUSED_BY) for line in lines if line.startswith(CAUSED_BY)]
    return (causes[-1] if causes else " / ".join(lines[:LINES]))[:CHARS]


def _advice(query: str, checkpoint: Path, text: str) -> str | None:
    if NO_SPACE in text:
        return (
            f"free some space on the disks of {checkpoint} and of Spark's scratch files: nothing is lost, "
            "the query goes on behind its last whole batch"
        )
    if any(sign in text for sign in BROKEN):
        return (
            f"its checkpoint {checkpoint} cannot be read: bring the file back, or put the checkpoint aside "
            f"with `odograph jobs reset {query}`; the query then reads again what Kafka keeps, to equal rows"
        )
    return None
