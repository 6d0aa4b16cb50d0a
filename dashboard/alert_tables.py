"""Tables of the alerts page. No SQL, no streamlit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any
from zoneinfo import ZoneInfo

import pandas as pd

from dashboard import text
from dashboard.palette import SEVERITIES
from dashboard.tables import severity

Row = Mapping[Any, Any]


def triage(frame: pd.DataFrame, zone: ZoneInfo, now: pd.Timestamp, chosen: int | None) -> pd.DataFrame:
    """Alerts in the order of the frame; the chosen one has a mark, since the list may have moved on."""
    moment = now.to_pydatetime()
    return pd.DataFrame(
        {
            "No": [f"{'▶ ' if n == chosen else ''}{n}" for n in frame["alert_no"]],
            "Severity": frame["severity"].map(severity),
            "Status": [status(row) for row in frame.to_dict("records")],
            "Vehicle": frame["vehicle_id"],
            "Rule": frame["rule"],
            "Since": [text.clock(v, zone, moment) for v in frame["since_at"]],
            "Duration": frame["duration_s"].map(text.duration),
            "Value": frame["value"].astype(float),
            "Limit": frame["limit_value"].astype(float),
            "Message": _messages(frame),
            "Acknowledged by": frame["acknowledged_by"].fillna(text.NONE),
        }
    )


def status(row: Row) -> str:
    """Both axes in words, and what keeps an alert quiet."""
    words = ["active" if row["active"] else "cleared"]
    words.append("new" if text.missing(row["acknowledged_at"]) else "seen")
    words += ["silenced"] if not text.missing(row.get("silenced_until")) else []
    words += ["late"] if row.get("late") else []
    return ", ".join(words)


def _messages(frame: pd.DataFrame) -> list[str]:
    """Of a crash with the verdict on it, where there is one."""
    verdicts = frame["verdict"] if "verdict" in frame else [None] * len(frame)
    return [
        f"{m} ({v})" if isinstance(v, str) else m for m, v in zip(frame["message"], verdicts, strict=True)
    ]


def changes(frame: pd.DataFrame, zone: ZoneInfo, now: pd.Timestamp) -> pd.DataFrame:
    """What happened to an alert; the pipeline is named where nobody else is."""
    return pd.DataFrame(
        {
            "When": [text.clock(v, zone, now.to_pydatetime()) for v in frame["event_time"]],
            "What": frame["change"],
            "Severity": frame["severity"].map(severity),
            "Value": frame["value"].astype(float),
            "Limit": frame["limit_value"].astype(float),
            "By": frame["by_whom"].fillna("pipeline"),
            "Note": frame["note"].fillna(text.NONE),
        }
    )


def frames(frame: pd.DataFrame, zone: ZoneInfo, now: pd.Timestamp) -> pd.DataFrame:
    """The frames of the evidence: identity, and where the log has them."""
    return pd.DataFrame(
        {
            "First sample": [text.clock(v, zone, now.to_pydatetime()) for v in frame["t0"]],
            "Boot": frame["boot_id"],
            "Seq": frame["seq"],
            "Verdict": frame["verdict"],
            "Received": [text.clock(v, zone, now.to_pydatetime()) for v in frame["received_at"]],
            "Topic": frame["kafka_topic"],
            "Partition": frame["partition"],
            "Offset": frame["log_offset"],
        }
    )


def rules(
    known: pd.DataFrame, counted: pd.DataFrame, days: Sequence[date], zone: ZoneInfo, now: pd.Timestamp
) -> pd.DataFrame:
    """A row a rule, those without alerts too: counts of ``days``, ``Per day`` in their order; what it is.

    A rule that is not in ``known`` is of an earlier time: it has alerts and nothing else.
    """
    by_rule = {str(name): group for name, group in counted.groupby("rule")}
    facts = {str(row["rule"]): row for row in known.to_dict("records")}
    rows = [_rule(name, facts.get(name), by_rule.get(name), days, zone, now) for name in {**facts, **by_rule}]
    columns = list(_rule("", None, None, days, zone, now))
    found = pd.DataFrame(rows, columns=columns)
    return found.sort_values(["Alerts", "Rule"], ascending=[False, True], ignore_index=True)


def _rule(
    name: str,
    fact: Row | None,
    group: pd.DataFrame | None,
    days: Sequence[date],
    zone: ZoneInfo,
    now: pd.Timestamp,
) -> dict[str, object]:
    counts = {} if group is None else dict(zip(group["day"], group["alerts"], strict=True))
    listed = list(SEVERITIES)
    gravest = None if group is None else listed[int(group["worst"].min()) - 1]
    in_force = None if fact is None else fact["in_force"]
    return {
        "Rule": name,
        "Severity": severity(gravest if fact is None else fact["severity"]),
        "Alerts": 0 if group is None else int(group["alerts"].sum()),
        "Per day": [int(counts.get(day, 0)) for day in days],
        "Active": 0 if group is None else int(group["active"].sum()),
        "Not acknowledged": 0 if group is None else int(group["unseen"].sum()),
        "Last": text.NONE if group is None else text.clock(max(group["last_opened_at"]), zone, now),
        "Kind": text.NONE if fact is None else fact["kind"],
        "Limit": _limit(fact),
        "Version": text.NONE if fact is None else f"v{fact['version']}",
        "In force": {None: "not noted", True: "yes", False: "no longer"}[in_force],
        "Message": text.NONE if fact is None else fact["message"],
    }


def _limit(fact: Row | None) -> str:
    if fact is None or text.missing(fact["limit_sql"]):
        return text.NONE
    limit = str(fact["limit_sql"])
    plain = limit.removesuffix("D") if limit[:1].isdigit() or limit[:1] == "-" else limit
    beyond = "" if text.missing(fact["beyond"]) else f"{fact['beyond']} "
    return f"{beyond}{plain.removesuffix('.0')}"


def silences(frame: pd.DataFrame, zone: ZoneInfo, now: pd.Timestamp) -> pd.DataFrame:
    """Silences, those in force first."""
    moment = now.to_pydatetime()
    return pd.DataFrame(
        {
            "State": [silence_state(row) for row in frame.to_dict("records")],
            "Rule": frame["rule"].fillna("all rules"),
            "Vehicle": frame["vehicle_id"].fillna("all vehicles"),
            "From": [text.clock(v, zone, moment) for v in frame["from_at"]],
            "Until": [text.clock(v, zone, moment) for v in frame["until_at"]],
            "By": frame["by_whom"],
            "Why": frame["why"],
        }
    )


def silence_state(row: Mapping[Any, Any]) -> str:
    """In force, over, or ended before its time and by whom."""
    if row["in_force"]:
        return "in force"
    return "over" if text.missing(row["ended_by"]) else f"ended by {row['ended_by']}"


def silence_words(row: Mapping[Any, Any], zone: ZoneInfo, now: pd.Timestamp) -> str:
    """One silence in a line."""
    rule = "all rules" if text.missing(row["rule"]) else row["rule"]
    vehicle = "all vehicles" if text.missing(row["vehicle_id"]) else row["vehicle_id"]
    until = text.clock(row["until_at"], zone, now.to_pydatetime())
    return f"{rule} · {vehicle} · until {until} · {row['by_whom']}: {row['why']}"
