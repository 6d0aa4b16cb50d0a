"""What evidence is worth: an audit while frames flow, a crash record that the database's owner changed."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace as changed
from pathlib import Path
from typing import Any, Final

import psycopg
import pyarrow.parquet as pq

from infra.archive import reader
from infra.archive.entry import described
from infra.archive.layout import archive_of
from infra.archive.manifest import append, locked, read_hour
from infra.audit import horizon
from infra.audit.scope import Scope
from load_tests.drills.aggregates import start_jobs
from load_tests.drills.defects import replace
from load_tests.drills.poison.attack import Attack, program
from load_tests.drills.site import Site, until
from load_tests.drills.verdict import Promise

COMMAND_S: Final = 120.0
SHORT: Final = {
    "ODOGRAPH_JOBS_ARCHIVE_TRIGGER_S": "2", "ODOGRAPH_JOBS_LATENESS_S": "5", "ODOGRAPH_JOBS_AHEAD_S": "5",
    "ODOGRAPH_JOBS_WATERMARK_S": "15",
}  # fmt: skip
"""A frame is closed within 20 s, so that the attack is short."""
FLEET: Final = ("-c", "60", "--rate", "60", "--duration", "600s", "--late", "0.02", "--duplicate", "0.02",
                "--lost", "0.01", "--clock-unset", "0.01")  # fmt: skip
ENOUGH: Final = 300
"""Frames that are balanced while others flow."""
ENOUGH_S: Final = 120.0

_OFF: Final = """
UPDATE odograph.vehicle_window SET frames = frames {sign} 1 WHERE (vehicle_id, window_start) = """

Json = dict[str, Any]


def _told(site: Site, mutant: str | None, *arguments: str) -> tuple[int, Json]:
    """Exit code and JSON of an ``odograph`` command."""
    line = program(mutant, *arguments, "--json")
    done = subprocess.run(line, env=site.env, capture_output=True, text=True, timeout=COMMAND_S, check=False)
    return done.returncode, json.loads(done.stdout) if done.stdout.startswith("{") else {"error": done.stderr}


# An audit while frames flow ------------------------------------------------------------------------------


def row11(site: Site, mutant: str | None) -> Iterator[Promise]:
    """Audits in the middle of a drive: nothing lacks, and a frame that is taken away does."""
    quick = changed(site, env=site.env | SHORT)
    quick.bridge()
    start_jobs(quick)
    quick.simulate("row11", *FLEET)

    def counted() -> bool:
        code, found = _told(quick, None, "audit")
        return code == 0 and found["account"]["counted"] >= ENOUGH

    until(counted, ENOUGH_S, f"{ENOUGH} frames balanced while others flow")
    readings = [_told(quick, mutant, "audit", *more) for more in ((), ("--since", "9m"), ("--wait", "3s"))]
    told = "; ".join(
        f"exit {code}: {found['account']['counted']} counted, {found['in_flight']} in flight, "
        f"residual {found['residual']}" for code, found in readings
    )  # fmt: skip
    flow = [code == 0 and found["residual"] == 0 and found["in_flight"] > 0 for code, found in readings]
    yield Promise("audits while frames flow balance, and say what is in flight", all(flow), told)
    with _frame_off_a_window(quick) as where:
        code, found = _told(quick, mutant, "audit")
        names = [(gap["vehicle_id"], gap["archived"] - gap["counted"]) for gap in found["windows"]]
        yield Promise("a frame taken off a window is found while others flow",
                      code == 1 and names == [(where, 1)], f"exit {code}, {names}")  # fmt: skip
    with _frame_off_the_archive(quick) as (partition, offset):
        code, found = _told(quick, mutant, "audit")
        holes = [(gap["partition"], gap["ranges"]) for gap in found["log"]]
        yield Promise("a frame taken out of the archive is found while others flow",
                      code == 1 and holes == [(partition, [[offset, offset]])],
                      f"exit {code}, {holes}")  # fmt: skip
    quick.stop("row11")
    code, found = _told(quick, mutant, "audit", "--wait", "60s")
    yield Promise("at rest, after --wait, nothing is in flight and all of it balances",
                  (code, found["in_flight"], found["residual"]) == (0, 0, 0) and found["generated"] > 0,
                  f"exit {code}, {found.get('generated')} generated, {found['in_flight']} in flight, "
                  f"residual {found['residual']}")  # fmt: skip


@contextmanager
def _frame_off_a_window(site: Site) -> Iterator[str]:
    """The vehicle whose oldest window counts a frame too few in the block."""
    with psycopg.connect(site.endpoints.db_owner_url, autocommit=True) as connection:
        row = connection.execute(
            _OFF.format(sign="-").encode()
            + b"(SELECT vehicle_id, window_start FROM odograph.vehicle_window ORDER BY 2, 1 LIMIT 1) "
            b"RETURNING vehicle_id, window_start"
        ).fetchone()
        assert row is not None
        try:
            yield row[0]
        finally:
            connection.execute(_OFF.format(sign="+").encode() + b"(%s, %s)", row)


@contextmanager
def _frame_off_the_archive(site: Site) -> Iterator[tuple[int, int]]:
    """Partition and offset of a record that archive and manifest do not hold in the block."""
    folder = archive_of(site.home)
    hour = min(reader.hours(folder))
    name = min(read_hour(folder, hour).files)
    path = next(folder.rglob(name))
    whole = path.read_bytes()
    table = pq.read_table(path)
    places = list(zip(table["partition"].to_pylist(), table["log_offset"].to_pylist(), strict=True))
    lost = next(place for place in places if (place[0], place[1] - 1) in places)
    new = path.with_suffix(".new")
    pq.write_table(table.filter([place != lost for place in places]), new)
    _put(folder, hour, path, new, name)
    try:
        yield lost
    finally:
        new.write_bytes(whole)
        _put(folder, hour, path, new, name)


def _put(folder: Path, hour: int, path: Path, new: Path, name: str) -> None:
    """A file in the place of another, and the manifest says so."""
    with locked(folder, writing=True):
        entry = described(new, name)
        new.replace(path)
        append(folder, hour, {"op": "add", "file": entry.as_json()})


def balances_what_flows() -> None:
    """An audit takes for closed what was received up to now, and windows that are still open."""

    def hasty(honest: Callable[..., Scope]) -> Callable[..., Scope]:
        return lambda scope, closed_ms, lateness_ms, window_ms: honest(
            scope, closed_ms + 2 * lateness_ms, lateness_ms, window_ms
        )

    replace(Scope, "closed", hasty)


def hides_losses() -> None:
    """An audit takes everything for in flight."""
    replace(horizon, "look", lambda honest: lambda *where: changed(honest(*where), moment_ms=0))


ATTACKS: Final = (
    Attack("row11", "an audit while frames flow", row11,
           {"row11-balances-what-flows": balances_what_flows, "row11-hides-losses": hides_losses}),
)  # fmt: skip
