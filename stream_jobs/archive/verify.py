"""Is the archive whole? Each file by size and SHA-256, the offsets of the log for holes and doubles.

A generated day is checked against its run.json. And what ``odograph archive`` prints.
"""

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Any, Final

from infra.clients.db import sql_of
from infra.clients.duck import connected
from infra.clients.tables import aligned
from infra.contract import seq_ranges
from stream_jobs.archive.manifest import HOUR_MS, hour_name, locked, read_hour, sha256_of
from stream_jobs.archive.reader import ArchiveFile, by_place, examined, expired, hours, records_sql, spans

SQL: Final = sql_of(__file__)

MIB: Final = 1 << 20
FAULTS: Final = SQL["faults"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was looked at, and all that is wrong; ``unlisted`` files have no line in the manifest."""

    files: int
    rows: int
    bytes: int
    expired_rows: int
    unlisted: list[Path]
    damage: list[str]
    log: list[str]  # what is wrong with the offsets

    @property
    def whole(self) -> bool:
        return not self.damage and not self.log


def verified(folder: Path, hours_ms: Sequence[int] | None, quick: bool) -> Verdict:
    """Examine these hours, or all; ``quick``: sizes only, and offsets by the manifest alone."""
    wanted = set(hours(folder) if hours_ms is None else hours_ms)
    found, damage = examined(folder, wanted)
    past = expired(folder, min(wanted, default=0))
    # At a full hour records may lie out of the order of their receipt.
    around = {hour + step for hour in wanted for step in (-HOUR_MS, HOUR_MS)} - wanted
    beside, damage_beside = examined(folder, around)
    exact = not (quick or damage or damage_beside)
    listed = [(file.path, file.written["bytes"], file.written["sha256"]) for file in found if file.written]
    for path, size, digest in () if quick else listed:
        # Those of another size are in ``damage`` already.
        if path.exists() and path.stat().st_size == size and sha256_of(path) != digest:
            damage.append(f"{path} has other bytes than were written")
    return Verdict(
        files=len(listed),
        rows=sum(file.entry.rows for file in found if file.entry),
        bytes=sum(size for _, size, _ in listed),
        expired_rows=sum(file.entry.rows for file in past if file.entry and file.hour_ms in wanted),
        unlisted=[file.path for file in found if not file.written],
        damage=damage,
        log=list(_log_faults([*past, *found, *beside], wanted, exact)),
    )


def _log_faults(files: Sequence[ArchiveFile], wanted: Set[int], exact: bool) -> Iterator[str]:
    """Offsets between those of the hours ``wanted`` that are in no file, expired ones neither, or in two;
    ``exact``: looked up in the files where counts do not fit.
    """
    for (topic, partition, log), found in sorted(by_place(files).items(), key=itemgetter(0)):
        ours = [each for each in found if each[1].hour_ms in wanted and not each[1].expired]
        there = spans(ours, of_expired=False)
        if not there:
            continue
        kept, gone = (spans(found, of_expired=past) for past in (False, True))
        covered, count = seq_ranges.size(there), sum(o.count for o, _ in ours)
        holes = seq_ranges.minus([(there[0][0], there[-1][1])], kept)
        doubles: list[int] = []
        if exact and (holes or covered != count):
            where = {"topic": topic, "partition": partition, "log": log}
            where |= {"first": there[0][0], "last": there[-1][1]}
            read = [file for _, file in found if not file.expired]
            sql = FAULTS.format(records=records_sql([({topic: log}, read)]))
            with connected() as connection:
                rows = connection.execute(sql, where).fetchall()
            holes = [(begin, end) for begin, end, _ in rows if end >= begin]
            doubles = [begin - 1 for begin, _, more in rows if more]
        name = f"{topic}-{partition}"
        for first, last in seq_ranges.minus(holes, gone):
            yield f"{name}: offsets {first} to {last} are in no file"
        if doubles:
            first, last = doubles[0], doubles[-1]
            yield f"{name}: {len(doubles)} offsets from {first} to {last} are there twice"
        beside = spans((each for each in found if each[1].hour_ms not in wanted), of_expired=False)
        elsewhere = seq_ranges.both(there, seq_ranges.merged([*gone, *beside]))
        if not exact and not 0 <= covered - count <= seq_ranges.size(elsewhere):
            yield f"{name}: {count} records for {covered} offsets"


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
    sums = f"{verdict.files:,} files, {verdict.rows:,} records, {verdict.bytes / MIB:,.1f} MiB"
    return "\n".join([*lines, f"{folder}: {'whole' if verdict.whole else 'NOT WHOLE'}; {sums}"])


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
    rows: list[tuple[object, ...]] = []
    for line in lines:
        remarks = [f"{line['expired_rows']:,} records expired"] if line["expired_rows"] else []
        counts = (line["files"], line["packed"], line["rows"], line["bytes"] / MIB)
        rows.append((line["hour"], *counts, "; ".join(remarks + line["damage"])))
    files, rows_in_all, size = (sum(line[name] or 0 for line in lines) for name in ("files", "rows", "bytes"))
    rows.append(("sum", files, None, rows_in_all, size / MIB, ""))
    return aligned(rows, ("hour of receipt", "files", "packed", "records", "MiB", ""))
