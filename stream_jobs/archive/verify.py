"""Is the archive whole? Each file against its line in the manifest, and the offsets of the log for holes.

A file is checked by its size and SHA-256. Every offset of a topic partition between the first and the last
that is archived must be there once: Kafka numbers them without gaps. A generated day is checked against its
run.json. And what ``odograph archive`` prints.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from infra.clients.duck import connected
from infra.contract import seq_ranges
from stream_jobs.archive.manifest import hour_name, locked, read_hour, sha256_of
from stream_jobs.archive.reader import ArchiveFile, day_files, examined, hours

MIB: Final = 1 << 20
_HOLES: Final = """
SELECT log_offset + 1, following - 1
FROM (SELECT log_offset, lead(log_offset) OVER (ORDER BY log_offset) AS following
      FROM read_parquet(?, hive_partitioning = false) WHERE topic = ? AND partition = ?)
WHERE following > log_offset + 1 ORDER BY 1
"""
_TWICE: Final = """
SELECT min(log_offset), max(log_offset), count(*)
FROM (SELECT log_offset FROM read_parquet(?, hive_partitioning = false) WHERE topic = ? AND partition = ?
      GROUP BY log_offset HAVING count(*) > 1)
HAVING count(*) > 0
"""


@dataclass(slots=True)
class Verdict:
    """What was looked at, and all that is wrong; ``unlisted`` files have no line in the manifest."""

    files: int = 0
    rows: int = 0
    bytes: int = 0
    expired_rows: int = 0
    unlisted: list[Path] = field(default_factory=list)
    damage: list[str] = field(default_factory=list)
    log: list[str] = field(default_factory=list)
    """What is wrong with the offsets."""

    @property
    def whole(self) -> bool:
        """Whether nothing is wrong."""
        return not self.damage and not self.log


def verified(folder: Path, hours_ms: Sequence[int] | None, quick: bool) -> Verdict:
    """Examine these hours, or all; ``quick``: sizes only, and offsets by the manifest alone."""
    wanted = hours(folder) if hours_ms is None else hours_ms
    found, damage = examined(folder, wanted)
    entries = [file.entry for file in found if file.entry is not None]
    expected = {file.path: (file.entry.bytes, file.entry.sha256) for file in found if file.entry is not None}
    summary = day_files(folder)
    for path in (file.path for file in found) if summary else ():
        listed = summary.get(path.relative_to(folder).as_posix())
        expected |= {} if listed is None else {path: (listed["bytes"], listed["sha256"])}
    for path, (size, digest) in {} if quick else expected.items():
        # Those of another size are in ``damage`` already.
        if path.exists() and path.stat().st_size == size and sha256_of(path) != digest:
            damage.append(f"{path} has other bytes than were written")
    with locked(folder, writing=False):
        expired_rows = sum(read_hour(folder, hour).expired_rows for hour in wanted)
    return Verdict(
        files=len(expected),
        rows=sum(entry.rows for entry in entries),
        bytes=sum(size for size, _ in expected.values()),
        expired_rows=expired_rows,
        unlisted=[file.path for file in found if file.path not in expected],
        damage=damage,
        log=list(_log_faults(found, exact=not quick and not damage)),
    )


def _log_faults(files: Sequence[ArchiveFile], exact: bool) -> Iterator[str]:
    """Offsets that are in no file, or in two; ``exact``: looked up in the files where counts do not fit."""
    by_partition = defaultdict(list)
    for file in files:
        for offsets in file.entry.offsets if file.entry is not None else ():
            by_partition[offsets.topic, offsets.partition].append((offsets, str(file.path)))
    for (topic, partition), found in sorted(by_partition.items()):
        spans = seq_ranges.merged((o.first, o.last) for o, _ in found)
        covered = seq_ranges.size(spans)
        count = sum(o.count for o, _ in found)
        name = f"{topic}-{partition}"
        if len(spans) == 1 and covered == count:
            continue
        if exact:
            yield from _exact_faults(name, [[path for _, path in found], topic, partition])
            continue
        for before, after in pairwise(spans):
            yield f"{name}: offsets {before[1] + 1} to {after[0] - 1} are in no file"
        if count != covered:
            yield f"{name}: {count} records for {covered} offsets"


def _exact_faults(name: str, where: list[Any]) -> Iterator[str]:
    with connected() as connection:
        for first, last in connection.execute(_HOLES, where).fetchall():
            yield f"{name}: offsets {first} to {last} are in no file"
        for first, last, count in connection.execute(_TWICE, where).fetchall():
            yield f"{name}: {count} offsets from {first} to {last} are there twice"


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


def hours_json(folder: Path, hours_ms: Sequence[int]) -> list[dict[str, Any]]:
    """An object an hour; ``rows`` is None where a file has no line in the manifest."""
    lines = []
    for hour in hours_ms:
        found, damage = examined(folder, [hour])
        with locked(folder, writing=False):
            state = read_hour(folder, hour)
        rows = [file.entry.rows for file in found if file.entry is not None]
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
    table = [f"{'hour of receipt':<16}{'files':>7}{'packed':>8}{'records':>13}{'MiB':>10}"]
    for line in lines:
        rows = "not known" if line["rows"] is None else f"{line['rows']:,}"
        expired = f"{line['expired_rows']:,} records expired" if line["expired_rows"] else ""
        remark = "; ".join(filter(None, [expired, *line["damage"]]))
        counts = f"{line['hour']:<16}{line['files']:>7}{line['packed']:>8}{rows:>13}"
        table.append(f"{counts}{line['bytes'] / MIB:>10.1f}  {remark}".rstrip())
    files, size, total = (sum(line[name] or 0 for line in lines) for name in ("files", "bytes", "rows"))
    return "\n".join([*table, f"{'sum':<16}{files:>7}{'':>8}{total:>13,}{size / MIB:>10.1f}"])
