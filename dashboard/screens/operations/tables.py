"""The page Operations in words and tables: parts of the pipeline, queries, clocks, ledger, storage. Pure.

Green is measured green: a part that was not measured just now is unknown, whatever it was before.
"""

from typing import Final, Literal, NamedTuple

import pandas as pd

from dashboard.shared import text
from dashboard.shared.text import GROUPED, ONE, Columns, Record, clock, duration, known
from infra.settings.sections import Watch

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
    "dashboard": ("Dashboard", "queries"),
    "proxy": ("Proxy of the dashboards", ""),
    "mirror": ("Mirror of the other region", ""),
}
"""By name, in the order of a frame's path: what people call it, what its rate counts; ``bridge-2`` is one."""


class Look(NamedTuple):
    """How a state is shown: a sign, so that colour is not alone."""

    sign: str
    colour: str
    badge: Literal["green", "orange", "red", "gray"]
    icon: str


WORKS, STRAINED, WRONG, UNKNOWN = "works", "strained", "does not work", "unknown"
LOOKS: Final = {
    WORKS: Look("✓", "#12937e", "green", ":material/check_circle:"),
    STRAINED: Look("!", "#c9730a", "orange", ":material/error:"),
    WRONG: Look("✕", "#d6246e", "red", ":material/cancel:"),
    UNKNOWN: Look("?", "#7f8b98", "gray", ":material/help:"),
}
BY_STATE: Final = ("State", {state: look.colour for state, look in LOOKS.items()})
FULL_DAYS_MOST: Final = 3650  # a disk that would be full later is not said to be
GROWTH_LEAST_S: Final = 6 * 3600  # what grew for less tells of a start, not of days
mib: Final = text.divided(2**20)


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
    return name.partition("-")[0]


def title(name: str) -> str:
    """What people call a part; its number where there are several."""
    stage, number = STAGES.get(_kind(name)), name.partition("-")[2]
    return name if stage is None else f"{stage[0]} {number}".rstrip()


def verdict(parts: pd.DataFrame) -> tuple[str, str]:
    """State and words over all parts: the worst that is known, and what is not known."""
    names = {state: [title(n) for n in parts.loc[parts["state"] == state, "stage"]] for state in LOOKS}
    if names[WRONG]:
        return WRONG, f"{len(names[WRONG])} of {len(parts)} parts do not work: {', '.join(names[WRONG])}"
    if names[UNKNOWN]:
        return UNKNOWN, f"{len(names[UNKNOWN])} of {len(parts)} parts were not measured just now"
    if names[STRAINED]:
        return STRAINED, f"All {len(parts)} parts work; strained: {', '.join(names[STRAINED])}"
    return WORKS, f"All {len(parts)} parts work"


def troubles(parts: pd.DataFrame) -> list[str]:
    """A line for each part that is not known to work, with its reason."""
    return [
        f"{LOOKS[part['state']].sign} {title(part['stage'])}: "
        + (part["reason"] if part["state"] == WRONG else f"not measured for {duration(part['age_s'])}")
        for part in text.rows_of(parts[parts["state"].isin([WRONG, UNKNOWN])])
    ]


def signed(state: str) -> str:
    """A state as sign and word."""
    return f"{LOOKS[state].sign} {state}"


PARTS: Final[Columns] = {
    "Part": ("stage", title),
    "State": ("state", signed),
    "Rate": lambda part: text.number(
        part["rate_per_s"], f"{STAGES.get(_kind(part['stage']), ('', ''))[1]}/s", 1
    ),
    "Last 15 minutes": "rates",
    "Errors": ("errors", float),
    "Waiting": ("lag", float),
    "Full": ("saturation", lambda share: 100 * share),
    "Cores": ("cores", float),
    "Memory, MiB": ("memory_mb", float),
    "Restarts": ("restarts", float),
    "Measured": ("age_s", lambda age: f"{duration(age)} ago"),
}


def parts(found: pd.DataFrame, rates: pd.DataFrame) -> pd.DataFrame:
    """The judged parts, whose figures are missing where they are not of now, with their ``rates`` drawn.

    ``rates`` are ``stage``, ``at``, ``rate_per_s`` of the last minutes.
    """
    lines = {stage: of["rate_per_s"].astype(float).dropna().tolist() for stage, of in rates.groupby("stage")}
    names = ["rate_per_s", "errors", "lag", "saturation", "cores", "memory_mb"]
    now = found[names].astype(float).where(found["measured"].astype(bool))
    return found.assign(**now, rates=found["stage"].map(lambda name: lines.get(name, [])))


def places(lag: pd.DataFrame, hot: Watch) -> tuple[pd.DataFrame, Columns]:
    """Records that wait for each reader: a row a reader and topic, a column a partition.

    Strained: a partition is ``hot``, far behind the others of its topic.
    """
    keys = ["reader", "topic"]
    wide = lag.pivot_table(index=keys, columns="partition", values="lag", aggfunc="sum").astype(float)
    wide.columns = pd.Index([f"Partition {number}" for number in wide.columns])
    whole = lag.groupby(keys).agg(
        lag=("lag", "sum"), rate=("rate_per_s", "sum"), at=("at", "min"), measured=("measured", "all")
    )
    median = lag.groupby(keys)["lag"].quantile(0.5, interpolation="lower").clip(lower=1)
    most = lag.groupby(keys)["lag"].max().astype(float)
    whole["ratio"] = most / median
    is_hot = (whole["ratio"] >= hot.hot_ratio) & (most >= hot.hot_records)
    state = pd.Series(WORKS, index=whole.index, dtype=object).mask(is_hot, STRAINED)
    whole["state"] = state.mask(~whole["measured"].astype(bool), UNKNOWN)
    whole["rate"] = whole["rate"].astype(float).where(whole["measured"].astype(bool))
    columns: Columns = {
        "Reader": "reader",
        "Topic": "topic",
        "State": ("state", signed),
        "Waiting": ("lag", float, GROUPED),
        "Most / median": ("ratio", float, ONE),
        **{name: (name, float, GROUPED) for name in wide.columns},
        "Appended, /s": ("rate", float, ONE),
        "Measured": ("at", clock),
    }
    return whole.join(wide).reset_index().sort_values(["topic", "reader"], ignore_index=True), columns


TOP_KEYS: Final[Columns] = {  # vehicles that send most
    "Vehicle": "vehicle_id",
    "Topic": "topic",
    "Partition": "partition",
    "Share, %": ("share", lambda share: 100 * share, ONE),
    "Records/s": ("rate_per_s", None, ONE),
    "Counted": ("at", clock),
}


QUERIES: Final[Columns] = {  # the last batch of each streaming query
    "Query": "query",
    "Last batch": ("at", clock),
    "Batch, ms": ("batch_ms", None, GROUPED),
    "Frames in": ("input_rows", None, GROUPED),
    "Frames/s": ("rows_per_s", None, ONE),
    "Waiting in Kafka": ("lag_records", None, GROUPED),
    "Watermark behind": ("watermark_lag_s", duration),
    "State rows": ("state_rows", None, GROUPED),
    "State, MiB": ("state_bytes", mib, ONE),
    "Duplicates dropped": ("dropped_duplicates", None, GROUPED),
    "Dropped late": ("dropped_late", None, GROUPED),
}


TASKS: Final[Columns] = {  # periodic tasks of maintenance and of the stream jobs
    "Task": "task",
    "Process": "process",
    "State": lambda task: signed(
        UNKNOWN if task["run_at"] is None else WORKS if task["failing_since"] is None else WRONG
    ),
    "Last run": ("run_at", clock),
    "Duration, s": ("run_s", float, "%.2f"),
    "Every": ("interval_s", duration),
    "Failures": "failures",
    "Failing since": ("failing_since", clock),
    "Error": ("error", known),
}


def _clock(row: Record) -> str:
    ahead = [] if row["ahead_s"] is None else [f"{duration(row['ahead_s'])} ahead"]
    return ", ".join([*ahead, *(["never set"] if row["unset"] else [])]) or text.NONE


OFF_TIME: Final[Columns] = {  # late and quarantined frames by vehicle
    "Vehicle": "vehicle_id",
    "Late": "late",
    "Not repaired": "late_open",
    "Latest by": ("late_worst_s", duration),
    "Quarantined": "quarantined",
    "Clock": _clock,
    "Last": ("last_at", clock),
}

AHEAD: Final[Columns] = {"Vehicle": "vehicle_id", "Ahead, s": ("ahead_s", float, ONE)}
"""Vehicles that push the watermark within the limit."""


def defence(found: Record, lateness_s: float) -> str:
    """What the delay in force saves, and what would have saved 99.9 %, in a sentence."""
    frames, late = found["frames"], found["late"]
    if not frames:
        return "No frame was read within a day, so nothing can be said of the delay."
    share = 100 * (1 - late / max(frames, late))
    have = f"{share:.3f} % of {frames:,} frames came within the delay in force, {lateness_s:g} s."
    if found["needed_s"] is None:
        return f"{have} That is 99.9 % or more: no longer delay is needed."
    return f"{have} A delay of {duration(found['needed_s'])} would have saved 99.9 %."


def pushed(found: Record) -> str:
    """What the clocks in quarantine would have done to the watermark, in a sentence."""
    frames = found["quarantined"]
    if not frames:
        return "No clock was impossible."
    if found["ahead_worst_s"] is None:
        return f"{frames:,} frames with a clock that was never set were kept from the watermark."
    return (
        f"Without the quarantine the watermark would stand {duration(found['ahead_worst_s'])} ahead, and all "
        f"frames with a right clock since then would be late ({frames:,} frames were kept from it)."
    )


AUDIT: Final[Columns] = {  # the conservation ledger by hour
    "Hour": ("hour", clock),
    "Balance": ("residual", lambda left: "balances" if left == 0 else f"{left:,} unaccounted for"),
    "Up to": ("closed_until", clock),
    "Vehicles": "vehicles",
    "Generated": "generated",
    "Lost on the link": "lost_on_link",
    **{word.capitalize().replace("_", " "): word for word in ("on_board", "on_the_way", "dead", "missing")},
    **{word.capitalize(): word for word in ("late", "quarantined", "counted")},
    "Duplicates": "duplicate",
}

AUDIT_FINDINGS: Final[Columns] = {  # what is missing, or counted otherwise than archived
    "Hour": ("hour", clock),
    "Between": "stage",
    "Vehicle": ("vehicle_id", known),
    "What": "what",
    "Frames": "frames",
}

OVERLOAD: Final[Columns] = {
    "Began": ("began_at", clock),
    "Ended": ("ended_at", clock),
    "Classes": "classes",
    "Waited at its begin": ("lag_records", None, GROUPED),
    "Frames put off": ("deferred", None, GROUPED),
    "Not in windows yet": ("waiting", None, GROUPED),
}


def overload_now(found: pd.DataFrame) -> str | None:
    """The overload that lasts, in words; None where there is none."""
    lasting = found[found["ended_at"].isna()] if len(found) else found
    if not len(lasting):
        return None
    (row,) = lasting.to_dict("records")
    return (
        f"Overload: telemetry of {row['classes'].replace(',', ', ')} goes to the archive only, "
        f"{text.number(row['deferred'])} frames so far. It is taken into windows and trips when it is over."
    )


REJECTED: Final[Columns] = {"Kind": "kind", "Reason": "reason", "Count": "frames", "Last": ("last_at", clock)}
"""What went into no window."""


LATENCY: Final[Columns] = {  # from receipt and from the event to the alerts topic, by rule
    "Rule": "rule",
    "Findings": ("findings", None, GROUPED),
    "Receipt to alert p50, ms": ("received_p50_ms", float, GROUPED),
    "p95, ms": ("received_p95_ms", float, GROUPED),
    "Event to alert p50, ms": ("event_p50_ms", float, GROUPED),
}


def _grown(row: Record) -> float | None:
    """Growth, bytes a day; None where it was not watched for long enough."""
    watched_s, growth = row["grown_over_s"], row["growth_per_day"]
    known = watched_s is not None and watched_s >= GROWTH_LEAST_S and growth is not None
    return float(growth) if known else None


FOLDERS: Final[Columns] = {  # what lies on the disk
    "Folder": "place",
    "MiB": ("bytes", mib, ONE),
    "MiB a day": lambda row: mib(_grown(row)),
}


def room(folders: pd.DataFrame) -> str:
    """What the disk has left, and for how long at the growth of the last day."""
    free = folders["free_bytes"].dropna()
    if free.empty:
        return "What the disk has left is not known."
    left = float(free.iloc[0])
    growth = [grown for grown in map(_grown, text.rows_of(folders)) if grown is not None]
    if not growth:
        return f"{left / 2**30:,.1f} GiB free on the disk; its growth is known after six hours."
    grows = sum(max(grown, 0.0) for grown in growth)
    days = left / grows if grows else float("inf")
    lasts = f", full in {days:.0f} days at the growth of the last day" if days < FULL_DAYS_MOST else ""
    return f"{left / 2**30:,.1f} GiB free on the disk{lasts}."


SIZES: Final[Columns] = {  # the biggest tables
    "Table": "table",
    "MiB": ("bytes", mib, ONE),
    "Rows, about": ("about_rows", None, GROUPED),
    "Oldest chunk": ("since", text.minute),
    "Kept": ("kept_days", lambda days: "for ever" if text.missing(days) else f"{days:.0f} days"),
}
