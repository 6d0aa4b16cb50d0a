"""What ``odograph archive`` prints; pure but for the reading of manifests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from stream_jobs.archive.layout import hour_name
from stream_jobs.archive.manifest import locked, read_hour
from stream_jobs.archive.reader import examined
from stream_jobs.archive.verify import Verdict

MIB = 1 << 20


def hours_of(folder: Path, hours_ms: Sequence[int]) -> list[dict[str, Any]]:
    """A line an hour; ``rows`` is None where a file has no line in the manifest."""
    lines = []
    for hour in hours_ms:
        found, damage = examined(folder, [hour])
        with locked(folder, writing=False):
            state = read_hour(folder, hour)
        rows = [file.rows for file in found if file.rows is not None]
        lines.append({
            "hour": hour_name(hour).replace("/hour=", "T").removeprefix("date=") + "Z",
            "files": len(found),
            "packed": sum(name in state.packed_ms for name in state.files),
            "rows": sum(rows) if len(rows) == len(found) else None,
            "bytes": sum(file.path.stat().st_size for file in found if file.path.exists()),
            "expired_rows": state.expired_rows,
            "damage": damage,
        })  # fmt: skip
    return lines


def hours_text(folder: Path, lines: Sequence[dict[str, Any]]) -> str:
    """A table of hours with a sum below."""
    if not lines:
        return f"no records in {folder}"
    head = f"{'hour of receipt':<16}{'files':>7}{'packed':>8}{'records':>13}{'MiB':>10}  "
    body = [
        f"{line['hour']:<16}{line['files']:>7}{line['packed']:>8}{_count(line['rows']):>13}"
        f"{line['bytes'] / MIB:>10.1f}  {_remark(line)}".rstrip()
        for line in lines
    ]
    files, size = sum(line["files"] for line in lines), sum(line["bytes"] for line in lines)
    rows = sum(line["rows"] or 0 for line in lines)
    return "\n".join([head.rstrip(), *body, f"{'sum':<16}{files:>7}{'':>8}{rows:>13,}{size / MIB:>10.1f}"])


def _count(rows: int | None) -> str:
    return "not known" if rows is None else f"{rows:,}"


def _remark(line: dict[str, Any]) -> str:
    expired = f"{line['expired_rows']:,} records expired" if line["expired_rows"] else ""
    return "; ".join(filter(None, [expired, *line["damage"]]))


def verdict_json(verdict: Verdict) -> dict[str, Any]:
    """Fit for a machine."""
    return asdict(verdict) | {"unlisted": [str(p) for p in verdict.unlisted], "whole": verdict.whole}


def verdict_text(folder: Path, verdict: Verdict) -> str:
    """Everything that is wrong, a line each, and the sum."""
    lines = [*verdict.damage, *verdict.log]
    if verdict.unlisted:
        lines.append(
            f"{len(verdict.unlisted)} files have no line in the manifest, the first is "
            f"{verdict.unlisted[0]}: odograph archive verify --adopt gives them one"
        )
    if verdict.expired_rows:
        lines.append(f"{verdict.expired_rows:,} records have expired")
    word = "whole" if verdict.whole else "NOT WHOLE"
    lines.append(
        f"{folder}: {word}; {verdict.files:,} files, {verdict.rows:,} records, {verdict.bytes / MIB:,.1f} MiB"
    )
    return "\n".join(lines)
