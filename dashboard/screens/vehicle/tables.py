"""Tables of one vehicle: trends, alerts, trips, codes. No SQL, no streamlit."""

from typing import Any, Final

import pandas as pd
from pandas.io.formats.style import Styler

from dashboard.screens.crashes.charts import RECORDS
from dashboard.screens.trips import path
from dashboard.screens.vehicle.queries import METRICS
from dashboard.shared import text
from dashboard.shared.text import Columns, clock, duration, known, minute, severity
from dashboard.shared.theme import SEVERITIES


def days(value: Any) -> str:
    """Days to a threshold in words."""
    if text.missing(value):
        return "not heading there"
    return "beyond its threshold" if value <= 0 else f"threshold in {duration(86_400 * value)}"


_HEADS: Final = {"up": "▲", "down": "▼"}
TRENDS: Final[Columns] = {  # where slow quantities are heading
    "Signal": ("metric", lambda metric: METRICS.get(metric, (metric,))[0]),
    "Threshold": ("days_to_threshold", days),
    "Now": lambda row: text.number(row["value"], row["unit"], 1),
    "A day": lambda row: f"{row['slope_per_day']:+.2f} {row['unit']}",
    "90 % sure": lambda row: f"{row['slope_low_per_day']:+.2f} to {row['slope_high_per_day']:+.2f}",
    "Limit": lambda row: f"{_HEADS[row['heads']]} {text.number(row['threshold'], row['unit'], 1)}",
    "Met on": ("threshold_at", minute),
    "Hours": "points",
    "Over": ("span_days", lambda days: duration(86_400 * days)),
}


def tinted(table: pd.DataFrame, found: pd.DataFrame) -> Styler:
    """The trends with the near ones in colour; the words say the same."""
    _, major, minor, warning = SEVERITIES.values()
    colours = [
        "" if pd.isna(d) else f"color: {major if d <= 0 else minor if d < 7 else warning}; font-weight: 600"
        for d in found["days_to_threshold"].astype(float)
    ]
    return table.style.apply(lambda c: colours if c.name == "Threshold" else [""] * len(c))


_ITS: Final = ("Vehicle", "Model")  # what the page says above
TRIPS: Final[Columns] = {label: column for label, column in path.TRIPS.items() if label not in _ITS}
CRASHES: Final[Columns] = {label: column for label, column in RECORDS.items() if label not in _ITS} | {
    "Complete": ("complete", {True: "complete", False: "incomplete"}.get),
    "Why": ("reasons", "; ".join),
}

CODES: Final[Columns] = {  # trouble codes of alerts
    "Code": ("code", known),
    "What": ("rule", {"dtc_active": "set", "dtc_intermittent": "comes and goes"}.get),
    "Severity": ("severity", severity),
    "Status": ("active", {True: "active", False: "cleared"}.get),
    "First": ("opened_at", clock),
    "Last": ("last_at", clock),
    "Seen": "findings",
}
