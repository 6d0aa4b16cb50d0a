"""Parts of the vehicle's page below the charts: alerts, crash records, data quality."""

from __future__ import annotations

from typing import Any

import pandas as pd
import streamlit as st

from dashboard import alert_queries, charts, live, tables, text, vehicle_queries


def findings(vehicle_id: str) -> None:
    """Its alerts, active first."""
    st.subheader("Alerts", anchor=False)
    found = live.ask(alert_queries.alerts, vehicle_id)
    if found is None or found.empty:
        st.caption("No alert of this vehicle.")
        return
    table = tables.alerts(found, live.tz(), pd.Timestamp.now(tz="UTC"), vehicle=False)
    one = st.column_config.NumberColumn(format="%.1f")
    st.dataframe(
        tables.tinted(table),
        hide_index=True,
        placeholder=text.NONE,
        key="alerts",
        column_config={"Value": one, "Worst": one, "Limit": one},
    )


def crashes(vehicle_id: str) -> None:
    """Its crash records, the newest first."""
    found = live.ask(vehicle_queries.crash_records, vehicle_id)
    if found is None or found.empty:
        return
    st.subheader("Crash records", anchor=False)
    for record in found.to_dict("records"):
        crash({str(k): v for k, v in record.items()})


def crash(found: dict[str, Any]) -> None:
    """One record: what it says, the delta-V curve, the speed before."""
    bag = {True: "deployed", False: "not deployed"}.get(found["airbag_deployed"], "not known")
    hash_words = "hash matches" if found["hash_ok"] else "HASH DOES NOT MATCH"
    words = [
        text.clock(found["event_time"], live.tz()),
        f"delta-V {text.number(found['delta_v_max_kmh'], 'km/h', 1)}",
        f"air bag {bag}",
        "complete" if found["complete"] else "incomplete",
        hash_words,
        found["profile"],
    ]
    st.text(" · ".join(words))
    verdict(found)
    left, right = st.columns(2)
    with left:
        st.markdown("**Change of velocity after time zero**")
        st.altair_chart(charts.delta_v(found["record"]), key=f"dv_{found['boot_id']}_{found['crash_id']}")
    with right:
        st.markdown("**Speed before time zero** (shaded: brake on)")
        st.altair_chart(charts.pre_crash(found["record"]), key=f"pre_{found['boot_id']}_{found['crash_id']}")


def verdict(found: dict[str, Any]) -> None:
    """What record and telemetry together say, why, and whether the record is whole and locked."""
    defects = found.get("defects")
    missing = text.missing(defects) if not isinstance(defects, list) else False
    whole = "not checked" if missing else f"{len(defects)} defects" if defects else "whole and plausible"
    locked = "open" if text.missing(found["locked_at"]) else f"locked by {found['locked_by']}"
    st.text(f"{found['verdict']} · {whole} · {locked}")
    reasons = [*found["reasons"], *(f"{d['element']}: {d['fault']}: {d['detail']}" for d in defects or [])]
    if reasons:
        with st.expander("Why"):
            st.text("\n".join(reasons))


def quality(history: pd.DataFrame, summary: dict[str, Any]) -> None:
    """How good its data is, in the span and in all."""
    st.subheader("Data quality", anchor=False)
    sums = history.sum(numeric_only=True, min_count=1)
    tiles = {
        "Samples": sums.get("samples"),
        "Frames": sums.get("frames"),
        "Late, repaired": sums.get("frames_late"),
        "Restated": sums.get("windows_restated"),
        "Out of range": sums.get("out_of_range"),
    }
    with st.container(key="figures_quality"):
        for label, value in tiles.items():
            st.metric(label, text.number(value), border=True)
    st.caption(
        f"In the span above. In all: {text.number(summary['frames'])} frames and "
        f"{text.number(summary['distance_km'], 'km', 1)} "
        f"since {text.clock(summary['first_event'], live.tz())}, "
        f"{text.number(summary['windows_restated'])} of {text.number(summary['windows'])} windows restated."
    )
