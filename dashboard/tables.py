"""Tables: frames turned into columns as people read them. No SQL, no streamlit."""

from __future__ import annotations

from zoneinfo import ZoneInfo

import pandas as pd
from pandas.io.formats.style import Styler

from dashboard import text
from dashboard.palette import SEVERITIES, SEVERITY_SIGNS


def severity(value: object) -> str:
    """A severity as sign and word, so that colour is not alone."""
    return text.NONE if text.missing(value) else f"{SEVERITY_SIGNS[str(value)]} {value}"


def tinted(frame: pd.DataFrame, column: str = "Severity") -> Styler:
    """The table with severities in their colours."""
    return frame.style.map(_tint, subset=[column])


def _tint(shown: object) -> str:
    colour = SEVERITIES.get(str(shown).rpartition(" ")[2])
    return f"color: {colour}; font-weight: 600" if colour else ""


def alerted_vehicles(fleet: pd.DataFrame) -> pd.DataFrame:
    """Vehicles with active alerts, the worst first."""
    order = list(SEVERITIES)
    kept = fleet[fleet["alerts"] > 0].sort_values(
        ["severity", "alerts"],
        key=lambda c: c.map(order.index) if c.name == "severity" else -c,
        kind="stable",
    )
    return pd.DataFrame(
        {
            "Severity": kept["severity"].map(severity),
            "Vehicle": kept["vehicle_id"],
            "Alerts": kept["alerts"],
            "State": kept["state"],
        }
    ).reset_index(drop=True)


def found_vehicles(fleet: pd.DataFrame) -> pd.DataFrame:
    """Vehicles as a search lists them."""
    return pd.DataFrame(
        {
            "Vehicle": fleet["vehicle_id"],
            "Model": fleet["model"].fillna(text.NONE),
            "State": fleet["state"],
            "Severity": fleet["severity"].map(severity),
        }
    )


def alerts(frame: pd.DataFrame, zone: ZoneInfo, now: pd.Timestamp, vehicle: bool = True) -> pd.DataFrame:
    """Alerts as listed; ``vehicle`` False leaves out whose they are."""
    columns = {
        "Severity": frame["severity"].map(severity),
        "Status": [_status(a, k) for a, k in zip(frame["active"], frame["acknowledged_at"], strict=True)],
        "Vehicle": frame["vehicle_id"],
        "Rule": frame["rule"],
        "Message": _messages(frame),
        "Since": [text.clock(v, zone, now.to_pydatetime()) for v in frame["opened_at"]],
        "Duration": frame["duration_s"].map(text.duration),
        "Value": frame["value"].astype(float),
        "Worst": frame["worst_value"].astype(float),
        "Limit": frame["limit_value"].astype(float),
        "Findings": frame["findings"],
        "Model": frame["model"].fillna(text.NONE),
        "Acknowledged by": frame["acknowledged_by"].fillna(text.NONE),
    }
    hidden = set() if vehicle else {"Vehicle", "Model"}
    return pd.DataFrame({k: v for k, v in columns.items() if k not in hidden})


def _messages(frame: pd.DataFrame) -> pd.Series:
    """Of a crash with the verdict on it, where there is one."""
    if "verdict" not in frame:
        return frame["message"]
    told = [
        f"{m} ({v})" if isinstance(v, str) else m
        for m, v in zip(frame["message"], frame["verdict"], strict=True)
    ]
    return pd.Series(told, index=frame.index, dtype=object)


def _status(active: bool, acknowledged_at: object) -> str:
    known = "seen" if not text.missing(acknowledged_at) else "new"
    return f"active, {known}" if active else "cleared"


def queries(frame: pd.DataFrame, zone: ZoneInfo, now: pd.Timestamp) -> pd.DataFrame:
    """The last batch of each streaming query."""
    return pd.DataFrame(
        {
            "Query": frame["query"],
            "Last batch": [text.clock(v, zone, now.to_pydatetime()) for v in frame["at"]],
            "Batch, ms": frame["batch_ms"],
            "Frames in": frame["input_rows"],
            "Frames/s": frame["rows_per_s"],
            "Waiting in Kafka": frame["lag_records"],
            "Watermark behind": frame["watermark_lag_s"].map(text.duration),
            "State rows": frame["state_rows"],
            "State, MiB": frame["state_bytes"].astype(float) / 2**20,
            "Duplicates dropped": frame["dropped_duplicates"],
            "Dropped late": frame["dropped_late"],
        }
    )


def rejected(frame: pd.DataFrame, zone: ZoneInfo, now: pd.Timestamp) -> pd.DataFrame:
    """What went into no window."""
    return pd.DataFrame(
        {
            "Kind": frame["kind"],
            "Reason": frame["reason"],
            "Count": frame["frames"],
            "Last": [text.clock(v, zone, now.to_pydatetime()) for v in frame["last_at"]],
        }
    )


def audit(frame: pd.DataFrame, zone: ZoneInfo, now: pd.Timestamp) -> pd.DataFrame:
    """The conservation ledger by hour."""
    moment = now.to_pydatetime()
    return pd.DataFrame(
        {
            "Hour": [text.clock(v, zone, moment) for v in frame["hour"]],
            "Balance": frame["residual"].map(lambda left: "balances" if left == 0 else f"{left:,} missing"),
            "Up to": [text.clock(v, zone, moment) for v in frame["closed_until"]],
            "Vehicles": frame["vehicles"],
            "Generated": frame["generated"],
            "Lost on the link": frame["lost_on_link"],
            "On board": frame["on_board"],
            "On the way": frame["on_the_way"],
            "Dead": frame["dead"],
            "Missing": frame["missing"],
            "Late": frame["late"],
            "Quarantined": frame["quarantined"],
            "Counted": frame["counted"],
            "Duplicates": frame["duplicate"],
        }
    )


def audit_findings(frame: pd.DataFrame, zone: ZoneInfo, now: pd.Timestamp) -> pd.DataFrame:
    """What is missing, or counted otherwise than archived."""
    return pd.DataFrame(
        {
            "Hour": [text.clock(v, zone, now.to_pydatetime()) for v in frame["hour"]],
            "Between": frame["stage"],
            "Vehicle": frame["vehicle_id"].fillna(text.NONE),
            "What": frame["what"],
            "Frames": frame["frames"],
        }
    )


def latency(frame: pd.DataFrame) -> pd.DataFrame:
    """From receipt and from the event to the alerts topic, by rule."""
    return pd.DataFrame(
        {
            "Rule": frame["rule"],
            "Findings": frame["findings"],
            "Receipt to alert p50, ms": frame["received_p50_ms"].astype(float).round(),
            "p95, ms": frame["received_p95_ms"].astype(float).round(),
            "Event to alert p50, ms": frame["event_p50_ms"].astype(float).round(),
        }
    )
