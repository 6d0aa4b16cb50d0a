"""Tables of the alerts page, and the list while somebody works on it. No SQL, no streamlit."""

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any, Final
from zoneinfo import ZoneInfo

import pandas as pd

from dashboard.shared import text
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


def in_order(frame: pd.DataFrame, numbers: Sequence[int]) -> pd.DataFrame:
    """The rows of these alerts in this order; a number without a row is left out."""
    kept = frame.drop_duplicates("alert_no").set_index("alert_no", drop=False)
    return kept.loc[[n for n in numbers if n in kept.index]].reset_index(drop=True)


def neighbour(numbers: Sequence[int], current: int | None, step: int) -> int | None:
    """The alert ``step`` rows on from the current one, the first where none is; None past either end."""
    if current is None or current not in numbers:
        return numbers[0] if numbers else None
    place = list(numbers).index(current) + step
    return numbers[place] if 0 <= place < len(numbers) else None


def status(row: Row) -> str:
    """Both axes in words, and what keeps an alert quiet."""
    words = ["active" if row["active"] else "cleared"]
    words.append("new" if missing(row["acknowledged_at"]) else "seen")
    words += ["silenced"] if not missing(row["silenced_until"]) else []
    words += ["late"] if row["late"] else []
    return ", ".join(words)


def triage(chosen: int | None) -> Columns:
    """Alerts; the chosen one has a mark, since the list may have moved on."""
    return {
        "No": ("alert_no", lambda n: f"{'▶ ' if n == chosen else ''}{n}"),
        "Severity": ("severity", severity),
        "Status": status,
        "Vehicle": "vehicle_id",
        "Rule": "rule",
        "Since": ("since_at", clock),
        "Duration": ("duration_s", duration),
        "Value": ("value", float, ONE),
        "Limit": ("limit_value", float, ONE),
        "Message": text.message,
        "Acknowledged by": ("acknowledged_by", known),
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


def rules(
    noted: pd.DataFrame, counted: pd.DataFrame, days: Sequence[date], zone: ZoneInfo, now: pd.Timestamp
) -> pd.DataFrame:
    """A row a rule: counts of ``days``, and what it is; one no longer known has alerts only."""
    how = {"alerts": "sum", "active": "sum", "unseen": "sum", "worst": "min", "last_opened_at": "max"}
    sums = counted.groupby("rule").agg(how)
    both = noted[NOTED].set_index("rule").join(sums, how="outer").rename_axis("rule").reset_index()
    both = both.fillna({"alerts": 0, "active": 0, "unseen": 0})
    daily = counted.set_index(["rule", "day"])["alerts"].to_dict()
    both["per_day"] = [[int(daily.get((rule, day), 0)) for day in days] for rule in both["rule"]]
    ordered = both.sort_values(["alerts", "rule"], ascending=[False, True], ignore_index=True)
    return text.table(ordered, RULES, zone, now)


def silence_state(row: Row) -> str:
    """In force, over, or ended before its time and by whom."""
    if row["in_force"]:
        return "in force"
    return "over" if missing(row["ended_by"]) else f"ended by {row['ended_by']}"


SILENCES: Final[Columns] = {  # silences, those in force first
    "State": silence_state,
    "Rule": ("rule", lambda rule: rule or "all rules"),
    "Vehicle": ("vehicle_id", lambda vehicle: vehicle or "all vehicles"),
    "From": ("from_at", clock),
    "Until": ("until_at", clock),
    "By": "by_whom",
    "Why": "why",
}


def silence_words(row: Row, zone: ZoneInfo, now: pd.Timestamp) -> str:
    """One silence in a line."""
    until = text.clock(row["until_at"], zone, now)
    what = f"{row['rule'] or 'all rules'} · {row['vehicle_id'] or 'all vehicles'}"
    return f"{what} · until {until} · {row['by_whom']}: {row['why']}"
