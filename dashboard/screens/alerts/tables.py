"""Tables of the alerts page, and the list while somebody works on it. No SQL, no streamlit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, Final
from zoneinfo import ZoneInfo

import pandas as pd

from dashboard.shared import text
from dashboard.shared.text import Columns, clock, known, messages, severity
from dashboard.shared.theme import SEVERITIES

Row = Mapping[Any, Any]


@dataclass(frozen=True, slots=True)
class Held:
    """The list as it stands still: ``numbers`` in their order, and how many others match by now."""

    numbers: tuple[int, ...]
    newcomers: int


def held(before: Sequence[int], matching: Sequence[int], still: bool) -> Held:
    """The list to show: as it was while somebody works on it (``still``), else as it is now.

    A list that is sorted anew under a hand makes it act on another alert than it meant. ``matching`` are the
    numbers that match the filters now, in their order; those that do no longer keep their place while still.
    """
    if not still or not before:
        return Held(tuple(matching), 0)
    return Held(tuple(before), len(set(matching) - set(before)))


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


def triage(frame: pd.DataFrame, zone: ZoneInfo, now: pd.Timestamp, chosen: int | None) -> pd.DataFrame:
    """Alerts in the order of the frame; the chosen one has a mark, since the list may have moved on."""
    return pd.DataFrame(
        {
            "No": [f"{'▶ ' if n == chosen else ''}{n}" for n in frame["alert_no"]],
            "Severity": frame["severity"].map(severity),
            "Status": [status(row) for row in frame.to_dict("records")],
            "Vehicle": frame["vehicle_id"],
            "Rule": frame["rule"],
            "Since": text.clocks(frame["since_at"], zone, now),
            "Duration": frame["duration_s"].map(text.duration),
            "Value": frame["value"].astype(float),
            "Limit": frame["limit_value"].astype(float),
            "Message": messages(frame),
            "Acknowledged by": frame["acknowledged_by"].fillna(text.NONE),
        }
    )


def status(row: Row) -> str:
    """Both axes in words, and what keeps an alert quiet."""
    words = ["active" if row["active"] else "cleared"]
    words.append("new" if text.missing(row["acknowledged_at"]) else "seen")
    words += ["silenced"] if not text.missing(row["silenced_until"]) else []
    words += ["late"] if row["late"] else []
    return ", ".join(words)


CHANGES: Final[Columns] = {
    "When": ("event_time", clock),
    "What": "change",
    "Severity": ("severity", severity),
    "Value": ("value", float),
    "Limit": ("limit_value", float),
    "By": ("by_whom", lambda who: "pipeline" if text.missing(who) else who),
    "Note": ("note", known),
}
"""What happened to an alert; the pipeline is named where nobody else is."""


FRAMES: Final[Columns] = {
    "First sample": ("t0", clock),
    "Boot": "boot_id",
    "Seq": "seq",
    "Verdict": "verdict",
    "Received": ("received_at", clock),
    "Topic": "kafka_topic",
    "Partition": "partition",
    "Offset": "log_offset",
}
"""The frames of the evidence: identity, and where the log has them."""


def rules(
    noted_now: pd.DataFrame, counted: pd.DataFrame, days: Sequence[date], zone: ZoneInfo, now: pd.Timestamp
) -> pd.DataFrame:
    """A row a rule: counts of ``days``, and what it is; one no longer known has alerts only."""
    by_rule = {str(name): group for name, group in counted.groupby("rule")}
    noted: dict[str, Row] = {str(row["rule"]): row for row in noted_now.to_dict("records")}
    names = list({**noted, **by_rule})
    facts = [noted.get(name, {}) for name in names]
    groups = [by_rule.get(name, counted.head(0)) for name in names]
    order = list(SEVERITIES)
    gravest = [order[int(group["worst"].min()) - 1] if len(group) else None for group in groups]
    counts = [dict(zip(group["day"], group["alerts"], strict=True)) for group in groups]
    last = [max(group["last_opened_at"]) if len(group) else None for group in groups]
    columns = {
        "Rule": names,
        "Severity": [
            severity(fact.get("severity", worst)) for fact, worst in zip(facts, gravest, strict=True)
        ],
        "Alerts": [int(group["alerts"].sum()) for group in groups],
        "Per day": [[int(count.get(day, 0)) for day in days] for count in counts],
        "Active": [int(group["active"].sum()) for group in groups],
        "Not acknowledged": [int(group["unseen"].sum()) for group in groups],
        "Last": text.clocks(last, zone, now),
        "Kind": [fact.get("kind", text.NONE) for fact in facts],
        "Limit": [_limit(fact) for fact in facts],
        "Version": [f"v{fact['version']}" if fact else text.NONE for fact in facts],
        "In force": [
            {None: "not noted", True: "yes", False: "no longer"}[fact.get("in_force")] for fact in facts
        ],
        "Message": [fact.get("message", text.NONE) for fact in facts],
    }
    found = pd.DataFrame(columns)
    return found.sort_values(["Alerts", "Rule"], ascending=[False, True], ignore_index=True)


def _limit(fact: Row) -> str:
    if text.missing(fact.get("limit_sql")):
        return text.NONE
    limit = str(fact["limit_sql"])
    plain = limit.removesuffix("D") if limit[:1].isdigit() or limit[:1] == "-" else limit
    beyond = "" if text.missing(fact["beyond"]) else f"{fact['beyond']} "
    return f"{beyond}{plain.removesuffix('.0')}"


def silences(frame: pd.DataFrame, zone: ZoneInfo, now: pd.Timestamp) -> pd.DataFrame:
    """Silences, those in force first."""
    return pd.DataFrame(
        {
            "State": [silence_state(row) for row in frame.to_dict("records")],
            "Rule": frame["rule"].fillna("all rules"),
            "Vehicle": frame["vehicle_id"].fillna("all vehicles"),
            "From": text.clocks(frame["from_at"], zone, now),
            "Until": text.clocks(frame["until_at"], zone, now),
            "By": frame["by_whom"],
            "Why": frame["why"],
        }
    )


def silence_state(row: Row) -> str:
    """In force, over, or ended before its time and by whom."""
    if row["in_force"]:
        return "in force"
    return "over" if text.missing(row["ended_by"]) else f"ended by {row['ended_by']}"


def silence_words(row: Row, zone: ZoneInfo, now: pd.Timestamp) -> str:
    """One silence in a line."""
    rule = "all rules" if text.missing(row["rule"]) else row["rule"]
    vehicle = "all vehicles" if text.missing(row["vehicle_id"]) else row["vehicle_id"]
    until = text.clock(row["until_at"], zone, now)
    return f"{rule} · {vehicle} · until {until} · {row['by_whom']}: {row['why']}"
