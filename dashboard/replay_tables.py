"""Comparisons of shadow runs with live as people read them. No SQL, no streamlit."""

from __future__ import annotations

from zoneinfo import ZoneInfo

import pandas as pd

from dashboard import text
from dashboard.maps import Record


def runs(frame: pd.DataFrame, zone: ZoneInfo) -> pd.DataFrame:
    """One row a run and table: equal or different, by how many rows."""
    return pd.DataFrame(
        {
            "Run": frame["run_id"],
            "Table": frame["table_name"],
            "Verdict": ["✓ equal" if equal else "✗ different" for equal in frame["equal"]],
            "Rows live": frame["live_rows"],
            "Rows run": frame["run_rows"],
            "Differ": frame["rows_differing"],
            "From": [text.clock(v, zone) for v in frame["since"]],
            "To": [text.clock(v, zone) for v in frame["until"]],
            "Vehicles": [text.number(v) if not text.missing(v) else "all" for v in frame["vehicles"]],
            "Changed settings": frame["changed"],
            "Read": frame["read_by_serving"],
            "Compared": [text.clock(v, zone) for v in frame["compared_at"]],
        }
    )


def difference(row: Record) -> str:
    """The columns that differ most and the first row that does."""
    most = sorted(row["by_column"].items(), key=lambda item: (-item[1], item[0]))
    columns = ", ".join(f"{name} in {count:,} rows" for name, count in most)
    return f"{columns}\nfirst: {row['first_difference']}" if row["first_difference"] else columns
