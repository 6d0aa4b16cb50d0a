"""The page Operations in words and tables: parts of the pipeline, queries, clocks, ledger, storage. Pure.

Green is measured green: a part that was not measured just now is unknown, whatever it was before.
"""

from __future__ import annotations

from typing import Any, Final, Literal
from zoneinfo import ZoneInfo

import pandas as pd

from dashboard.shared import text
from dashboard.shared.maps import rows_of
from dashboard.shared.text import Columns, clock, duration, known, mib

STAGES: Final = {
    "mosquitto": ("MQTT broker", "messages"),
    "bridge": ("Bridge, MQTT to Kafka", "messages"),
    "kafka": ("Kafka", "records"),
    "jobs": ("Stream jobs (Spark)", "frames"),
    "instant": ("Instant alerts (Spark)", "records"),
    "events": ("Event store", "records"),
    "maintenance": ("Maintenance", "runs"),
    "downlink": ("Downlink", "alerts"),
    "postgres": ("TimescaleDB", "commits"),
    "dashboard": ("Dashboard", "questions"),
}
"""By name, in the order of a frame's path: what people call it, what its rate counts; ``bridge-2`` is one."""

WORKS, STRAINED, WRONG, UNKNOWN = "works", "strained", "does not work", "unknown"
SIGNS: Final = {WORKS: "✓", STRAINED: "!", WRONG: "✕", UNKNOWN: "?"}
COLOURS: Final = {WORKS: "#12937e", STRAINED: "#c9730a", WRONG: "#d6246e", UNKNOWN: "#7f8b98"}
BADGES: Final[dict[str, Literal["green", "orange", "red", "gray"]]] = {
    WORKS: "green",
    STRAINED: "orange",
    WRONG: "red",
    UNKNOWN: "gray",
}
ICONS: Final = {
    WORKS: ":material/check_circle:",
    STRAINED: ":material/error:",
    WRONG: ":material/cancel:",
    UNKNOWN: ":material/help:",
}
DAY_S: Final = 86_400
MIB: Final = 2**20
FULL_DAYS_MOST: Final = 3650
"""A disk that would be full later is not said to be."""
GROWTH_LEAST_S: Final = 6 * 3600
"""What grew for less tells of a start, not of days."""


def judged(samples: pd.DataFrame, strained_share: float) -> pd.DataFrame:
    """The newest samples with ``state``, ordered as STAGES; strained: errors, or ``strained_share`` full."""
    busy = (samples["saturation"].astype(float) >= strained_share) | (samples["errors"].astype(float) > 0)
    state = pd.Series(WORKS, index=samples.index, dtype=object)
    state = state.mask(busy, STRAINED).mask(~samples["ready"].astype(bool), WRONG)
    state = state.mask(~samples["measured"].astype(bool), UNKNOWN)
    order = {name: place for place, name in enumerate(STAGES)}
    rank = samples["stage"].map(lambda name: order.get(_kind(name), len(order)))
    ranked = samples.assign(state=state, rank=rank).sort_values(["rank", "stage"], ignore_index=True)
    return ranked.drop(columns="rank")


def _kind(name: str) -> str:
    """``bridge`` of ``bridge-2``."""
    return name.partition("-")[0]


def title(name: str) -> str:
    """What people call a part; its number where there are several."""
    stage, number = STAGES.get(_kind(name)), name.partition("-")[2]
    return name if stage is None else f"{stage[0]} {number}".rstrip()


def verdict(parts: pd.DataFrame) -> tuple[str, str]:
    """State and words over all parts: the worst that is known, and what is not known."""
    names = {state: [title(n) for n in parts.loc[parts["state"] == state, "stage"]] for state in SIGNS}
    if names[WRONG]:
        return WRONG, f"{len(names[WRONG])} of {len(parts)} parts do not work: {', '.join(names[WRONG])}"
    if names[UNKNOWN]:
        return UNKNOWN, f"{len(names[UNKNOWN])} of {len(parts)} parts were not measured just now"
    if names[STRAINED]:
        return STRAINED, f"All {len(parts)} parts work; strained: {', '.join(names[STRAINED])}"
    return WORKS, f"All {len(parts)} parts work"


def troubles(parts: pd.DataFrame) -> list[str]:
    """A line for each part that is not known to work, with its reason."""
    found = []
    for part in rows_of(parts[parts["state"].isin([WRONG, UNKNOWN])]):
        quiet = f"not measured for {duration(part['age_s'])}"
        why = part["reason"] if part["state"] == WRONG else quiet
        found.append(f"{SIGNS[part['state']]} {title(part['stage'])}: {why}")
    return found


def signed(state: str) -> str:
    """A state as sign and word, so that colour is not alone."""
    return f"{SIGNS[state]} {state}"


def table(parts: pd.DataFrame, rates: pd.DataFrame) -> pd.DataFrame:
    """The parts as listed; ``rates`` are ``stage``, ``at``, ``rate_per_s`` of the last minutes."""
    drawn = {
        stage: found["rate_per_s"].astype(float).dropna().tolist() for stage, found in rates.groupby("stage")
    }
    passes = [STAGES.get(_kind(name), (name, ""))[1] for name in parts["stage"]]
    measured = parts["measured"].astype(bool)
    rate = parts["rate_per_s"].where(measured)

    def measured_now(column: str) -> pd.Series[float]:
        return parts[column].astype(float).where(measured)

    return pd.DataFrame(
        {
            "Part": parts["stage"].map(title),
            "State": parts["state"].map(signed),
            "Rate": [text.number(r, f"{what}/s", 1) for r, what in zip(rate, passes, strict=True)],
            "Last 15 minutes": [drawn.get(name, []) for name in parts["stage"]],
            "Errors": measured_now("errors"),
            "Waiting": measured_now("lag"),
            "Full": measured_now("saturation") * 100,
            "Cores": measured_now("cores"),
            "Memory, MiB": measured_now("memory_mb"),
            "Restarts": parts["restarts"].astype(float),
            "Measured": [f"{duration(age)} ago" for age in parts["age_s"]],
        }
    )


def places(lag: pd.DataFrame, zone: ZoneInfo, now: pd.Timestamp) -> pd.DataFrame:
    """Records that wait for each reader: a row a reader and topic, a column a partition."""
    keys = ["reader", "topic"]
    wide = lag.pivot_table(index=keys, columns="partition", values="lag", aggfunc="sum").astype(float)
    wide.columns = pd.Index([f"Partition {number}" for number in wide.columns])
    whole = lag.groupby(keys).agg(
        lag=("lag", "sum"), rate=("rate_per_s", "sum"), at=("at", "min"), measured=("measured", "all")
    )
    joined = whole.join(wide).reset_index().sort_values(["topic", "reader"], ignore_index=True)
    known = joined["measured"].astype(bool)
    return pd.DataFrame(
        {
            "Reader": joined["reader"],
            "Topic": joined["topic"],
            "State": known.map({True: signed(WORKS), False: signed(UNKNOWN)}),
            "Waiting": joined["lag"].astype(float),
            **{name: joined[name] for name in wide.columns},
            "Appended, /s": joined["rate"].astype(float).where(known),
            "Measured": text.clocks(joined["at"], zone, now),
        }
    )


QUERIES: Final[Columns] = {
    "Query": "query",
    "Last batch": ("at", clock),
    "Batch, ms": "batch_ms",
    "Frames in": "input_rows",
    "Frames/s": "rows_per_s",
    "Waiting in Kafka": "lag_records",
    "Watermark behind": ("watermark_lag_s", duration),
    "State rows": "state_rows",
    "State, MiB": ("state_bytes", mib),
    "Duplicates dropped": "dropped_duplicates",
    "Dropped late": "dropped_late",
}
"""The last batch of each streaming query."""


def tasks(frame: pd.DataFrame, zone: ZoneInfo, now: pd.Timestamp) -> pd.DataFrame:
    """Periodic tasks of maintenance and of the stream jobs."""
    state = frame["failing_since"].notna().map({True: WRONG, False: WORKS})
    return pd.DataFrame(
        {
            "Task": frame["task"],
            "Process": frame["process"],
            "State": state.mask(frame["run_at"].isna(), UNKNOWN).map(signed),
            "Last run": text.clocks(frame["run_at"], zone, now),
            "Duration, s": frame["run_s"].astype(float),
            "Every": frame["interval_s"].map(duration),
            "Failures": frame["failures"],
            "Failing since": text.clocks(frame["failing_since"], zone, now),
            "Error": frame["error"].fillna(text.NONE),
        }
    )


def off_time(frame: pd.DataFrame, zone: ZoneInfo, now: pd.Timestamp) -> pd.DataFrame:
    """Late and quarantined frames by vehicle."""
    return pd.DataFrame(
        {
            "Vehicle": frame["vehicle_id"],
            "Late": frame["late"],
            "Not repaired": frame["late_open"],
            "Latest by": frame["late_worst_s"].map(duration),
            "Quarantined": frame["quarantined"],
            "Clock": [_clock(*clock) for clock in zip(frame["ahead_s"], frame["unset"], strict=True)],
            "Last": text.clocks(frame["last_at"], zone, now),
        }
    )


def _clock(ahead_s: Any, unset: Any) -> str:
    """What is wrong with a vehicle's clock, in words."""
    ahead = [] if text.missing(ahead_s) else [f"{_long(ahead_s)} ahead"]
    never = ["never set"] if not text.missing(unset) and bool(unset) else []
    return ", ".join(ahead + never) or text.NONE


def _long(seconds: Any) -> str:
    """A duration; in years from two years on."""
    years = float(seconds) / DAY_S / 365.25
    return f"{years:.1f} years" if years >= 2 else duration(seconds)


AHEAD: Final[Columns] = {
    "Vehicle": "vehicle_id",
    "Ahead, s": ("ahead_s", float),
}
"""Vehicles that push the watermark within the limit."""


def defence(found: dict[str, Any], lateness_s: float) -> str:
    """What the delay in force saves, and what would have saved 99.9 %, in a sentence."""
    frames, late = found["frames"], found["late"]
    if not frames:
        return "No frame was read within a day, so nothing can be said of the delay."
    share = 100 * (1 - late / max(frames, late))
    have = f"{share:.3f} % of {frames:,} frames came within the delay in force, {lateness_s:g} s."
    if found["needed_s"] is None:
        return f"{have} That is 99.9 % or more: no longer delay is needed."
    return f"{have} A delay of {_long(found['needed_s'])} would have saved 99.9 %."


def pushed(found: dict[str, Any]) -> str:
    """What the clocks in quarantine would have done to the watermark, in a sentence."""
    frames = found["quarantined"]
    if not frames:
        return "No clock was impossible."
    if found["ahead_worst_s"] is None:
        return f"{frames:,} frames with a clock that was never set were kept from the watermark."
    return (
        f"Without the quarantine the watermark would stand {_long(found['ahead_worst_s'])} ahead, and every"
        f" honest frame since would be late ({frames:,} frames were kept from it)."
    )


AUDIT: Final[Columns] = {
    "Hour": ("hour", clock),
    "Balance": ("residual", lambda left: "balances" if left == 0 else f"{left:,} missing"),
    "Up to": ("closed_until", clock),
    "Vehicles": "vehicles",
    "Generated": "generated",
    "Lost on the link": "lost_on_link",
    "On board": "on_board",
    "On the way": "on_the_way",
    "Dead": "dead",
    "Missing": "missing",
    "Late": "late",
    "Quarantined": "quarantined",
    "Counted": "counted",
    "Duplicates": "duplicate",
}
"""The conservation ledger by hour."""


AUDIT_FINDINGS: Final[Columns] = {
    "Hour": ("hour", clock),
    "Between": "stage",
    "Vehicle": ("vehicle_id", known),
    "What": "what",
    "Frames": "frames",
}
"""What is missing, or counted otherwise than archived."""


REJECTED: Final[Columns] = {
    "Kind": "kind",
    "Reason": "reason",
    "Count": "frames",
    "Last": ("last_at", clock),
}
"""What went into no window."""


def _rounded(ms: Any) -> float:
    return float("nan") if text.missing(ms) else float(round(ms))


LATENCY: Final[Columns] = {
    "Rule": "rule",
    "Findings": "findings",
    "Receipt to alert p50, ms": ("received_p50_ms", _rounded),
    "p95, ms": ("received_p95_ms", _rounded),
    "Event to alert p50, ms": ("event_p50_ms", _rounded),
}
"""From receipt and from the event to the alerts topic, by rule."""


def folders(frame: pd.DataFrame) -> pd.DataFrame:
    """What lies on the disk."""
    size, growth = frame["bytes"].astype(float) / MIB, _grown(frame) / MIB
    return pd.DataFrame({"Folder": frame["place"], "MiB": size, "MiB a day": growth})


def _grown(frame: pd.DataFrame) -> pd.Series[float]:
    """Growth, bytes a day; missing where it was not watched for long enough."""
    long_enough = frame["grown_over_s"].astype(float) >= GROWTH_LEAST_S
    return frame["growth_per_day"].astype(float).where(long_enough)


def room(frame: pd.DataFrame) -> str:
    """What the disk has left, and for how long at the growth of the last day."""
    free = frame["free_bytes"].dropna()
    if free.empty:
        return "What the disk has left is not known."
    left = float(free.iloc[0])
    growth = _grown(frame)
    if growth.isna().all():
        return f"{left / 2**30:,.1f} GiB free on the disk; its growth is known after six hours."
    grows = float(growth.clip(lower=0).sum())
    days = left / grows if grows else float("inf")
    lasts = f", full in {days:.0f} days at the growth of the last day" if days < FULL_DAYS_MOST else ""
    return f"{left / 2**30:,.1f} GiB free on the disk{lasts}."


SIZES: Final[Columns] = {
    "Table": "table",
    "MiB": ("bytes", mib),
    "Rows, about": "about_rows",
    "Oldest chunk": ("since", lambda day: text.NONE if text.missing(day) else f"{day:%Y-%m-%d}"),
    "Kept": ("kept_days", lambda days: "for ever" if text.missing(days) else f"{days:.0f} days"),
}
"""The biggest tables."""
