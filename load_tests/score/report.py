"""A run's scorecard made and put into words."""

from __future__ import annotations

from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson

from infra.settings.settings import Settings, endpoints
from load_tests.score import definition, tables
from load_tests.score.card import Card, as_rows, card, details
from load_tests.score.events import Claim
from stream_jobs.audit.archive import cloned_vehicles

HEAD = (
    "detector",
    "truth",
    "found",
    "recall",
    "claims",
    "false",
    "precision",
    "p50 s",
    "p95 s",
    "expl.",
    "excl.",
)
WIDTHS = (18, 6, 6, 7, 7, 6, 10, 7, 7, 6, 6)


def made(settings: Settings, run_id: str | None, hits: Path | None = None) -> Card:
    """The card of a run, clones from the archive. Raises ConfigError, ServiceError."""
    terms = definition.load(hits or definition.SHIPPED)
    happened, found = tables.read(endpoints(settings).db_ingest_url, run_id)
    ours = {t.vehicle_id for t in (*happened.trips, *happened.stops, *happened.clones)}
    clones = sorted({c.vehicle_id for c in cloned_vehicles(settings.paths.home)} & ours)
    claims = [Claim("clone", vehicle, happened.end_ms, happened.end_ms) for vehicle in clones]
    return card(terms, happened, replace(found, clones=claims))


def as_json(found: Card, least: float) -> str:
    """The card with every miss and false claim."""
    body = {
        "run_id": found.run_id, "min": least, "failed": found.failed(least), "detectors": as_rows(found),
        "unknown_rules": list(found.unknown), "flood": asdict(found.flood), "cases": details(found),
    }  # fmt: skip
    return orjson.dumps(body, option=orjson.OPT_INDENT_2).decode()


def as_text(found: Card, least: float, verbose: bool = False) -> str:
    """A table; with ``verbose`` the misses and false claims below it."""
    lines = [f"run {found.run_id}, wanted {least:.2f}", _line(HEAD)]
    lines += [_detector(row, least) for row in as_rows(found)]
    flood = found.flood
    lines.append(
        f"{flood.faults} faults raised {flood.incidents} incidents, {_ratio(flood.incidents, flood.faults)} "
        f"a fault, of {flood.alerts} alerts, {_ratio(flood.alerts, flood.faults)} a fault"
    )
    if found.unknown:
        lines.append(f"rules that load_tests/score/hits.yaml does not name: {', '.join(found.unknown)}")
    if verbose:
        lines += [_case(row) for row in details(found)]
    failed = found.failed(least)
    lines.append(
        f"below {least:.2f}: {', '.join(failed)}"
        if failed
        else "every detector that could be judged is good enough"
    )
    return "\n".join(lines)


def _detector(row: dict[str, Any], least: float) -> str:
    cells = (
        row["detector"], row["truths"], row["found"], _share(row["recall"]), row["claims"], row["false"],
        _share(row["precision"]), _seconds(row["delay_p50_s"]), _seconds(row["delay_p95_s"]),
        row["explained"], sum(row["excluded"].values()),
    )  # fmt: skip
    why = [f"{count} {reason}" for reason, count in row["excluded"].items()]
    poor = any(share is not None and share < least for share in (row["recall"], row["precision"]))
    notes = "; ".join(filter(None, [", ".join(why), row["note"]]))
    return f"{_line(cells)} {'!' if poor else ' '} {notes}".rstrip()


def _ratio(count: int, faults: int) -> str:
    return f"{count / faults:.2f}" if faults else "-"


def _line(cells: tuple[Any, ...]) -> str:
    first, *rest = (str(cell) for cell in cells)
    return f"{first:{WIDTHS[0]}}" + "".join(f"{c:>{w}}" for c, w in zip(rest, WIDTHS[1:], strict=True))


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


def _case(row: Any) -> str:
    at = datetime.fromtimestamp(row["from_ms"] / 1000, UTC)
    lasts = "" if row["to_ms"] is None else f" {(row['to_ms'] - row['from_ms']) / 1000:.0f} s"
    return (
        f"{row['case']:7}{row['detector']:18} {row['vehicle_id']} {at:%Y-%m-%d %H:%M:%S}Z"
        f"{lasts} {row['what']} {row['label']}"
    )
