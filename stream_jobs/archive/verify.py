"""Is the archive whole? Each file against its line in the manifest, and the offsets of the log for holes.

A file is checked by its size and SHA-256. Every offset of a topic partition between the first and the last
that is archived must be there once: Kafka numbers them without gaps. A generated day is checked against its
run.json.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from infra.clients.duck import connected
from stream_jobs.archive.manifest import Offsets, hour_name, locked, read_hour, sha256_of
from stream_jobs.archive.reader import ArchiveFile, day_files, examined, hours

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
    verdict = Verdict()
    found, verdict.damage = examined(folder, wanted)
    written = {file.path: file.entry for file in found if file.entry is not None}
    expected = {p: (e.bytes, e.sha256) for p, e in written.items()} | day_digests(folder, found)
    if not quick:
        verdict.damage += [f"{path} has other bytes than were written" for path in other_bytes(expected)]
    verdict.unlisted = [file.path for file in found if file.path not in expected]
    verdict.files = len(expected)
    verdict.bytes = sum(size for size, _ in expected.values())
    verdict.rows = sum(entry.rows for entry in written.values())
    with locked(folder, writing=False):
        verdict.expired_rows = sum(read_hour(folder, hour).expired_rows for hour in wanted)
    verdict.log = list(log_faults(found, exact=not quick and not verdict.damage))
    return verdict


def other_bytes(expected: Mapping[Path, tuple[int, str]]) -> Iterator[Path]:
    """Files of the right size with another SHA-256: those of another size are told already."""
    for path, (size, digest) in expected.items():
        if path.exists() and path.stat().st_size == size and sha256_of(path) != digest:
            yield path


def day_digests(folder: Path, files: Iterable[ArchiveFile]) -> dict[Path, tuple[int, str]]:
    """Sizes and SHA-256 of the files of a generated day; none in the live archive."""
    summary = day_files(folder)
    names = {file.path: file.path.relative_to(folder).as_posix() for file in files}
    return {p: (summary[n]["bytes"], summary[n]["sha256"]) for p, n in names.items() if n in summary}


def log_faults(files: Sequence[ArchiveFile], exact: bool) -> Iterator[str]:
    """Offsets that are in no file, or in two; ``exact``: looked up in the files where counts do not fit."""
    by_partition: dict[tuple[str, int], list[Offsets]] = defaultdict(list)
    for file in files:
        for offsets in file.entry.offsets if file.entry is not None else ():
            by_partition[offsets.topic, offsets.partition].append(offsets)
    for (topic, partition), found in sorted(by_partition.items()):
        spans = joined((o.first, o.last) for o in found)
        covered = sum(last - first + 1 for first, last in spans)
        count = sum(o.count for o in found)
        if len(spans) == 1 and covered == count:
            continue
        holding = [str(f.path) for f in files if f.entry is not None and _holds(f, topic, partition)]
        name = f"{topic}-{partition}"
        yield from _exact(name, holding, topic, partition) if exact else _counted(name, spans, covered, count)


def _holds(file: ArchiveFile, topic: str, partition: int) -> bool:
    assert file.entry is not None
    return any((o.topic, o.partition) == (topic, partition) for o in file.entry.offsets)


def joined(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Spans of whole numbers, ends included, that touch or overlap, made one; in order."""
    found: list[tuple[int, int]] = []
    for first, last in sorted(spans):
        if found and first <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(last, found[-1][1]))
        else:
            found.append((first, last))
    return found


def _counted(name: str, spans: Sequence[tuple[int, int]], covered: int, count: int) -> Iterator[str]:
    for before, after in pairwise(spans):
        yield f"{name}: offsets {before[1] + 1} to {after[0] - 1} are in no file"
    if count != covered:
        yield f"{name}: {count} records for {covered} offsets"


def _exact(name: str, files: list[str], topic: str, partition: int) -> Iterator[str]:
    values = [files, topic, partition]
    with connected() as connection:
        for first, last in connection.execute(_HOLES, values).fetchall():
            yield f"{name}: offsets {first} to {last} are in no file"
        for first, last, count in connection.execute(_TWICE, values).fetchall():
            yield f"{name}: {count} offsets from {first} to {last} are there twice"


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
