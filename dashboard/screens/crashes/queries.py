"""Queries about crash records: the vault."""

from typing import Final

from dashboard.db import Query, queries_of

SQL: Final = queries_of(__file__)

RECORD_LIMIT: Final = 500

Key = tuple[str, int, str]  # vehicle id, boot id, crash id

crash_list: Query[[str | None, str | None]] = SQL["crash_list"]
crash: Query[[str, int, str]] = SQL["crash"]
delta_v: Query[[str, int, str]] = SQL["delta_v"]
pre_crash: Query[[str, int, str]] = SQL["pre_crash"]
custody: Query[[str, int, str]] = SQL["custody"]
