"""Tables of the alerts page, its two lists, and a list while somebody works on it. No SQL, no streamlit."""

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any, Final, NamedTuple
from zoneinfo import ZoneInfo

import pandas as pd

from dashboard.db import Query
from dashboard.shared import text
from dashboard.shared.queries import alerts, incidents
from dashboard.shared.text import NONE, ONE, Columns, clock, duration, known, missing, severity
from dashboard.shared.theme import SEVERITIES

Row = Mapping[Any, Any]


def held(before: Sequence[int], matching: Sequence[int], still: bool) -> tuple[tuple[int, ...], int]:
    """The list to show, as it was while somebody works on it (``still``), else as it is; and the newcomers.

    A list that is sorted anew under a hand makes it act on another alert than it meant. ``matching`` are the
    numbers that match the filters now, in their order; those that do no longer keep their place while still.
    """
    if not still or not before:
        return tuple(matching), 0
    return tuple(before), len(set(matching) - set(before))


def in_order(frame: pd.DataFrame, column: str, numbers: Sequence[int]) -> pd.DataFrame:
    """The rows of these numbers in this order; a number without a row is left out."""
    kept = frame.drop_duplicates(column).set_index(column, drop=False)
    return kept.loc[[n for n in numbers if n in kept.index]].reset_index(drop=True)


def neighbour(numbers: Sequence[int], current: int | None, step: int) -> int | None:
    """The alert ``step`` rows on from the current one, the first where none is; None past either end."""
    if current is None or current not in numbers:
        return numbers[0] if numbers else None
    place = list(numbers).index(current) + step
    return numbers[place] if 0 <= place < len(numbers) else None


def status(row: Row) -> str:
    """Both axes in words, and what keeps an alert or incident quiet."""
    words = ["active" if row["active"] else "cleared"]
    words.append("new" if missing(row["acknowledged_at"]) else "seen")
    words += ["silenced"] if not missing(row["silenced_until"]) else []
    words += ["late"] if row.get("late") else []
    return ", ".join(words)


def cause(name: str) -> str:
    """A cause in words."""
    return name.replace("_", " ")


INCIDENTS: Final[Columns] = {
    "Severity": ("severity", severity),
    "Status": status,
    "Vehicle": text.whose,
    "Cause": ("cause", cause),
    "Since": ("opened_at", clock),
    "Age": ("age_s", duration),
    "Alerts": "alerts",
    "Assigned to": ("assigned_to", known),
    "Message": "message",
}


ALERTS: Final[Columns] = {
    "Severity": ("severity", severity),
    "Status": status,
    "Vehicle": ("vehicle_id", text.named),
    "Rule": "rule",
    "Since": ("since_at", clock),
    "Duration": ("duration_s", duration),
    "Value": ("value", float, ONE),
    "Limit": ("limit_value", float, ONE),
    "Message": text.message,
    "Acknowledged by": ("acknowledged_by", known),
}


class Kind(NamedTuple):
    """What the page lists and opens: its name in the address, its number, its query, its table."""

    name: str
    number: str
    find: Query[...]
    shown: Columns

    def columns(self, chosen: int | None) -> Columns:
        """The table by numbers; the chosen one has a mark, since the list may have moved on."""
        return {"No": (self.number, lambda n: f"{'▶ ' if n == chosen else ''}{n}"), **self.shown}


ALERT: Final = Kind("alert", "alert_no", alerts, ALERTS)
INCIDENT: Final = Kind("incident", "incident_no", incidents, INCIDENTS)

TIMELINE: Final[Columns] = {  # the alerts of an incident in the order of their time
    "Opened": ("opened_at", clock),
    **{name: cell for name, cell in ALERTS.items() if name not in ("Vehicle", "Since", "Acknowledged by")},
}
SHARE: Final[Columns] = {"Vehicle": ("vehicle_id", text.named), "Model": ("model", known), **TIMELINE}
"""The same for an incident of the fleet: who has a share in it."""

NOTES: Final[Columns] = {  # what was done and said about an incident
    "When": ("at", clock),
    "What": "kind",
    "By": ("by_whom", lambda who: "pipeline" if missing(who) else who),
    "Words": ("text", known),
}

CHANGES: Final[Columns] = {  # what happened to an alert; the pipeline is named where nobody else is
    "When": ("event_time", clock),
    "What": "change",
    "Severity": ("severity", severity),
    "Value": ("value", float, ONE),
    "Limit": ("limit_value", float, ONE),
    "By": ("by_whom", lambda who: "pipeline" if missing(who) else who),
    "Note": ("note", known),
}

FRAMES: Final[Columns] = {  # the frames of the evidence: identity, and where the log has them
    "First sample": ("t0", clock),
    "Boot": "boot_id",
    "Seq": "seq",
    "Verdict": "verdict",
    "Received": ("received_at", clock),
    "Topic": "kafka_topic",
    "Partition": "partition",
    "Offset": "log_offset",
}


def _limit(fact: Row) -> str:
    if fact["limit_sql"] is None:
        return NONE
    limit = str(fact["limit_sql"])
    plain = limit.removesuffix("D") if limit[:1].isdigit() or limit[:1] == "-" else limit
    beyond = "" if fact["beyond"] is None else f"{fact['beyond']} "
    return f"{beyond}{plain.removesuffix('.0')}"


RULES: Final[Columns] = {
    "Rule": "rule",
    "Severity": lambda row: severity(row["severity"] or list(SEVERITIES)[int(row["worst"]) - 1]),
    "Alerts": ("alerts", int),
    "Per day": "per_day",
    "Active": ("active", int),
    "Not acknowledged": ("unseen", int),
    "Last": ("last_opened_at", clock),
    "Kind": ("kind", known),
    "Limit": _limit,
    "Version": ("version", lambda version: NONE if missing(version) else f"v{version:.0f}"),
    "In force": lambda row: {None: "not noted", True: "yes", False: "no longer"}[row["in_force"]],
    "Message": ("message", known),
}
NOTED: Final = ["rule", "severity", "kind", "limit_sql", "beyond", "version", "in_force", "message"]


def rules(noted: pd.DataFrame, counted: pd.DataFrame, days: Sequence[date]) -> pd.DataFrame:
    """A row of RULES a rule: counts of ``days``, and what it is; one no longer known has alerts only."""
    how = {"alerts": "sum", "active": "sum", "unseen": "sum", "worst": "min", "last_opened_at": "max"}
    sums = counted.groupby("rule").agg(how)
    both = noted[NOTED].set_index("rule").join(sums, how="outer").rename_axis("rule").reset_index()
    both = both.fillna({"alerts": 0, "active": 0, "unseen": 0})
    daily = counted.set_index(["rule", "day"])["alerts"].to_dict()
    both["per_day"] = [[int(daily.get((rule, day), 0)) for day in days] for rule in both["rule"]]
    return both.sort_values(["alerts", "rule"], ascending=[False, True], ignore_index=True)


def silence_state(row: Row) -> str:
    """In force, over, or ended before its time and by whom."""
    if row["in_force"]:
        return "in force"
    return "over" if missing(row["ended_by"]) else f"ended by {row['ended_by']}"


SILENCES: Final[Columns] = {  # silences, those in force first
    "State": silence_state,
    "Rule": lambda row: silenced(row)[0],
    "Vehicle": lambda row: silenced(row)[1],
    "From": ("from_at", clock),
    "Until": ("until_at", clock),
    "By": "by_whom",
    "Why": "why",
}


def silenced(row: Row) -> tuple[str, str]:
    """What a silence keeps quiet: a rule or cause, or all; a vehicle, or all."""
    what = row["rule"] or (f"cause: {cause(row['cause'])}" if row.get("cause") else "all rules")
    return what, row["vehicle_id"] or "all vehicles"


def silence_words(row: Row, zone: ZoneInfo, now: pd.Timestamp) -> str:
    """One silence in a line."""
    until = text.clock(row["until_at"], zone, now)
    return f"{' · '.join(silenced(row))} · until {until} · {row['by_whom']}: {row['why']}"
