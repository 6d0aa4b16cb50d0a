"""Predicted arrivals: how far they were off, by how long before, and those that are still open."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from dashboard import live, routing_charts, routing_queries, text


def page() -> None:
    """All of it."""
    quality, open_ones = live.ask(routing_queries.eta_quality), live.ask(routing_queries.etas)
    if quality is None or open_ones is None:
        return
    if quality.empty:
        live.nothing("No prediction can be graded yet: ask for one with `odograph eta` and let it arrive.")
    else:
        graded(quality)
    st.subheader("Under way", anchor=False)
    if open_ones.empty:
        st.caption("Nobody is under way to a destination that was asked for.")
        return
    st.dataframe(
        listed(open_ones), hide_index=True, placeholder=text.NONE, key="etas", alt="Open predictions"
    )


def graded(quality: pd.DataFrame) -> None:
    """Error and bias by horizon."""
    left, right = st.columns(2, gap="medium")
    with left:
        st.markdown("**Mean absolute error, % of the time that it took**")
        st.altair_chart(routing_charts.horizons(quality, "mape_pct", "MAPE, %"), key="mape")
    with right:
        st.markdown("**Bias: above 0 predicted too late, below 0 too early**")
        st.altair_chart(routing_charts.horizons(quality, "bias_pct", "bias, %", signed=True), key="bias")
    graded_ones = int(quality["predictions"].sum())
    st.caption(f"{graded_ones:,} predictions of vehicles that arrived, made 30 s and more before.")


def listed(found: pd.DataFrame) -> pd.DataFrame:
    """The open predictions as a table."""
    zone, now = live.tz(), pd.Timestamp.now(tz="UTC").to_pydatetime()
    return pd.DataFrame(
        {
            "Vehicle": found["vehicle_id"],
            "Arrives": [text.clock(v, zone, now) for v in found["arrival_at"]],
            "To go, km": (found["distance_m"].astype(float) / 1000).round(1),
            "Predicted": [text.clock(v, zone, now) for v in found["made_at"]],
            "Asked": [text.clock(v, zone, now) for v in found["asked_at"]],
        }
    )
