"""Queries about a day that is played again: where everybody was, what was wrong, what runs differ in."""

from datetime import date, datetime
from typing import Final

from dashboard.db import Query, queries_of

SQL: Final = queries_of(__file__)

day_span: Query[[]] = SQL["day_span"]
day_hours: Query[[date, str]] = SQL["day_hours"]
day_windows: Query[[date, str]] = SQL["day_windows"]
places: Query[[datetime, datetime, int, int]] = SQL["places"]
places_before: Query[[datetime, bool]] = SQL["places_before"]
alerts_between: Query[[datetime, datetime]] = SQL["alerts_between"]
verdicts: Query[[]] = SQL["verdicts"]
