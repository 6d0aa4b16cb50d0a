"""Part of the vehicle's page about its data: gaps, late, duplicates, clock."""

from __future__ import annotations

from typing import Any

import pandas as pd
import streamlit as st

from dashboard import live, text, vehicle_health_queries
from dashboard.screens.vehicle_past import when
from dashboard.spans import Span


def quality(vehicle_id: str, history: pd.DataFrame, shown: Span, extent: dict[str, Any]) -> None:
    """How good its data is, in the span and in all."""
    st.subheader("Data quality", anchor=False)
    start, end, _ = when(shown)
    told = live.row(live.ask_slowly(vehicle_health_queries.quality, vehicle_id, start, end)) or {}
    gaps = live.row(live.ask_slowly(vehicle_health_queries.gaps, vehicle_id, start, end)) or {}
    sums = history.sum(numeric_only=True, min_count=1)
    counts = {
        "Samples": sums.get("samples"),
        "Frames": sums.get("frames"),
        "Gaps": gaps.get("gaps"),
        "Late frames": told.get("late"),
        "Late, repaired": sums.get("frames_late"),
        "Duplicates": told.get("duplicate"),
        "Missing": told.get("missing"),
        "Clock wrong": told.get("quarantined"),
        "Dead letters": told.get("dead"),
        "Restated": sums.get("windows_restated"),
        "Out of range": sums.get("out_of_range"),
    }
    with st.container(key="figures_quality"):
        for label, value in counts.items():
            st.metric(label, text.number(value), border=True, help=HELP.get(label))
    st.text("\n".join(words(told, gaps)))
    st.caption(
        f"In the span above. In all, as far as days are summed up: {text.number(extent['frames'])} frames "
        f"and {text.number(extent['distance_km'], 'km', 1)} "
        f"since {text.clock(extent['first_event'], live.tz())}."
    )


HELP = {
    "Gaps": "Times without a window with the ignition on, in the last "
    f"{vehicle_health_queries.GAPS_DAYS} days of the span",
    "Duplicates": "By whole hours, as the ledger last found them; a dash: none, or not audited yet",
    "Missing": "Frames that nobody has, by whole hours, as the ledger last found them",
    "Clock wrong": "Frames that were quarantined: their clock was never set, or is ahead of the receipt",
    "Restated": "Rows (windows, minutes, hours or days, by the steps) that the batch layer made anew",
}


def words(told: dict[str, Any], gaps: dict[str, Any]) -> list[str]:
    """What the counts mean, where there is something to say."""
    found = []
    if gaps.get("gaps"):
        found.append(
            f"Gaps with the ignition on: {text.duration(gaps['gap_s'])} in all, "
            f"the longest {text.duration(gaps['longest_s'])}."
        )
    if told.get("late"):
        found.append(
            f"Late frames came {text.duration(told['delay_p50_s'])} after their last sample (median), "
            f"{text.duration(told['delay_max_s'])} at most; {told['late_open']} are not repaired yet."
        )
    if told.get("quarantined"):
        ahead = told.get("ahead_p50_s")
        clock = "" if ahead is None or ahead <= 0 else f", ahead by {text.duration(ahead)} (median)"
        found.append(f"Clock: {told['clock_unset']} frames with a clock never set{clock}.")
    return found or ["Nothing was late, and no clock was wrong, in this span."]
