"""The parts of the pipeline in the order of a frame's way, and how each is. No SQL, no streamlit.

Green is measured green: a part that was not measured just now is unknown, whatever it was before.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal
from zoneinfo import ZoneInfo

import pandas as pd

from dashboard import text


@dataclass(frozen=True, slots=True)
class Stage:
    """What a part is called, what its rate counts and what waits for it."""

    title: str
    passes: str
    waits: str


STAGES: Final[dict[str, Stage]] = {
    "mosquitto": Stage("MQTT broker", "messages", "messages queued"),
    "bridge": Stage("Bridge, MQTT to Kafka", "messages", "messages in flight"),
    "kafka": Stage("Kafka", "records", ""),
    "jobs": Stage("Stream jobs (Spark)", "frames", "records"),
    "instant": Stage("Instant alerts (Spark)", "records", ""),
    "events": Stage("Event store", "records", "records"),
    "maintenance": Stage("Maintenance", "runs", ""),
    "downlink": Stage("Downlink", "alerts", "alerts"),
    "postgres": Stage("TimescaleDB", "commits", ""),
    "dashboard": Stage("Dashboard", "questions", ""),
}
"""By name; ``bridge-2`` is a bridge."""

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


def judged(samples: pd.DataFrame, strained_share: float) -> pd.DataFrame:
    """The newest samples with ``state`` and in the order of the way.

    Strained: ready, but with errors since the sample before, or at ``strained_share`` of what it can hold.
    """
    busy = (samples["saturation"].astype(float) >= strained_share) | (samples["errors"].astype(float) > 0)
    state = pd.Series(WORKS, index=samples.index, dtype=object)
    state = state.mask(busy, STRAINED).mask(~samples["ready"].astype(bool), WRONG)
    state = state.mask(~samples["measured"].astype(bool), UNKNOWN)
    order = list(STAGES)
    rank = samples["stage"].map(
        lambda name: order.index(kind) if (kind := kind_of(name)) in order else len(order)
    )
    return (
        samples.assign(state=state, rank=rank)
        .sort_values(["rank", "stage"], ignore_index=True)
        .drop(columns="rank")
    )


def kind_of(name: str) -> str:
    """``bridge`` of ``bridge-2``."""
    return name.partition("-")[0]


def title(name: str) -> str:
    """What people call a part; its number where there are several."""
    stage, number = STAGES.get(kind_of(name)), name.partition("-")[2]
    return name if stage is None else f"{stage.title} {number}".rstrip()


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
    odd = parts[parts["state"].isin([WRONG, UNKNOWN])]
    return [_trouble(row) for row in odd.to_dict("records")]


def _trouble(part: Mapping[Hashable, Any]) -> str:
    quiet = f"not measured for {text.duration(part['age_s'])}"
    why = part["reason"] if part["state"] == WRONG else quiet
    return f"{SIGNS[part['state']]} {title(part['stage'])}: {why}"


def signed(state: str) -> str:
    """A state as sign and word, so that colour is not alone."""
    return f"{SIGNS[state]} {state}"


def tint(shown: object) -> str:
    """CSS of a cell that shows a state."""
    colour = COLOURS.get(str(shown).partition(" ")[2])
    return f"color: {colour}; font-weight: 600" if colour else ""


def table(parts: pd.DataFrame, rates: pd.DataFrame) -> pd.DataFrame:
    """The parts as listed; ``rates`` are ``stage``, ``at``, ``rate_per_s`` of the last minutes."""
    drawn = {
        stage: found["rate_per_s"].astype(float).dropna().tolist() for stage, found in rates.groupby("stage")
    }
    known = [STAGES.get(kind_of(name), Stage(name, "", "")) for name in parts["stage"]]
    measured = parts["measured"].astype(bool)
    return pd.DataFrame(
        {
            "Part": parts["stage"].map(title),
            "State": parts["state"].map(signed),
            "Rate": [
                text.number(rate, f"{stage.passes}/s", 1)
                for rate, stage in zip(parts["rate_per_s"].where(measured), known, strict=True)
            ],
            "Last 15 minutes": [drawn.get(name, []) for name in parts["stage"]],
            "Errors": parts["errors"].astype(float).where(measured),
            "Waiting": parts["lag"].astype(float).where(measured),
            "Full": parts["saturation"].astype(float).where(measured) * 100,
            "Cores": parts["cores"].astype(float).where(measured),
            "Memory, MiB": parts["memory_mb"].astype(float).where(measured),
            "Restarts": parts["restarts"].astype(float),
            "Measured": [f"{text.duration(age)} ago" for age in parts["age_s"]],
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
            "State": known.map(lambda measured: signed(WORKS if measured else UNKNOWN)),
            "Waiting": joined["lag"].astype(float),
            **{name: joined[name] for name in wide.columns},
            "Appended, /s": joined["rate"].astype(float).where(known),
            "Measured": [text.clock(at, zone, now.to_pydatetime()) for at in joined["at"]],
        }
    )
