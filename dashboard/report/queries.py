"""Queries of a day's report; ``vehicle`` null: the whole fleet."""

from datetime import date, datetime
from typing import Final

from dashboard.db import Query, queries_of

OfDay = Query[[datetime, datetime, str | None]]
SQL: Final = queries_of(__file__)
hours: OfDay = SQL["hours"]
driving: OfDay = SQL["driving"]
incidents: OfDay = SQL["incidents"]
trends: Query[[str | None]] = SQL["trends"]
codes: OfDay = SQL["codes"]
roads: Query[[date]] = SQL["roads"]
ledger: OfDay = SQL["ledger"]
rejected: OfDay = SQL["rejected"]
