"""Queries of a day's report, each in a file of its name; ``vehicle`` null: the whole fleet."""

from datetime import date, datetime
from pathlib import Path
from typing import Any, Final

from dashboard.db import Query, query

OfDay = Query[[datetime, datetime, str | None]]
SPAN: Final = "since until vehicle"


def _of_file(name: str, parameters: str = SPAN) -> Any:
    return query(f"report_{name}", parameters)(Path(__file__).with_name(f"{name}.sql").read_text())


hours: OfDay = _of_file("hours")
driving: OfDay = _of_file("driving")
incidents: OfDay = _of_file("incidents")
trends: Query[[str | None]] = _of_file("trends", "vehicle")
codes: OfDay = _of_file("codes")
roads: Query[[date]] = _of_file("roads", "day")
ledger: OfDay = _of_file("ledger")
rejected: OfDay = _of_file("rejected")
