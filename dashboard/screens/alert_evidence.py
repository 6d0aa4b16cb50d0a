"""The frames around an alert: value and limit as its rule saw them, and the signals as they were sent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import pandas as pd
import streamlit as st

from dashboard import alert_charts, alert_queries, alert_tables, evidence, live

SIGNALS_MOST: Final = 4
CONTEXT: Final = ("speed_kmh", "engine_rpm")
"""Shown beside what the rule reads, where the vehicle has them."""

Row = Mapping[str, Any]


def proof(number: int) -> None:
    """The evidence of one alert, or why there is none."""
    st.subheader("Evidence", anchor=False)
    alert = live.row(live.ask(alert_queries.alert, number))
    kept = live.ask(alert_queries.alert_evidence, number)
    known = live.ask(alert_queries.rules)
    if alert is None or kept is None:
        return
    if kept.empty:
        live.nothing(f"The frames around this alert {absent(alert)}.")
        return
    draw(list(kept["frame"]), alert, rule_of(known, alert))
    with st.expander("Frames, and where the log has them"):
        shown = alert_tables.frames(kept, live.tz(), pd.Timestamp.now(tz="UTC"))
        st.dataframe(shown, hide_index=True, key="evidence_frames")


def absent(alert: Row) -> str:
    """Why there are no frames."""
    if alert["evidence_at"] is None:
        return "are not collected yet: that takes a minute or two from the event"
    if alert["evidence_frames"]:
        return "are no longer kept"
    return "were not in the archive"


def rule_of(known: pd.DataFrame | None, alert: Row) -> dict[str, Any] | None:
    """The alert's rule, where it still is of the version that found it."""
    if known is None:
        return None
    name = str(alert["rule"]).partition(".")[0]
    return live.row(known[(known["rule"] == name) & (known["version"] == alert["rule_version"])])


def draw(frames: Sequence[Row], alert: Row, rule: Row | None) -> None:
    """What the rule compared, then signals."""
    opened_ms = round(alert["opened_at"].timestamp() * 1000)
    ended = alert["cleared_at"]
    cleared_s = None if ended is None else float((ended - alert["opened_at"]).total_seconds())
    seen = evidence.judged(frames, opened_ms, alert, rule)
    st.caption(told(len(frames), rule, seen))
    drawn: tuple[str, ...] = ()
    if seen.values["value"].notna().any():
        one = len(seen.signals) == 1 and bool(seen.unit)
        title = evidence.label(seen.signals[0]).partition(",")[0] if one else "value of the rule"
        st.altair_chart(alert_charts.value(seen, title, cleared_s), key="evidence_value")
        drawn = seen.signals if one else ()
    signals(frames, opened_ms, [n for n in (*seen.signals, *CONTEXT) if n not in drawn], cleared_s)


def told(frames: int, rule: Row | None, seen: evidence.Judged) -> str:
    """What is drawn, and what could not be."""
    words = f"{frames} frames, 30 s before to 30 s after it opened, as the vehicle sent them."
    if rule is None:
        return f"{words} This version of the rule is not noted in the database: only signals are shown."
    if rule["value_sql"] is None or rule["source"] != "frame":
        return f"{words} Rules of this kind compare no value of a frame."
    if not seen.values["value"].notna().any():
        return f"{words} The rule's value cannot be computed here: only signals are shown."
    if rule["kind"] not in evidence.COMPARED:
        return f"{words} A rule of kind {rule['kind']} judges more than these frames: no limit on this axis."
    return f"{words} Value and limit are computed as the rule has them."


def signals(frames: Sequence[Row], opened_ms: int, first: Sequence[str], cleared_s: float | None) -> None:
    """Signals as they were sent: those that matter first, others at choice."""
    there = evidence.present(frames)
    usual = [name for name in dict.fromkeys(first) if name in there]
    picked = st.multiselect(
        "Signals",
        there,
        default=usual[:SIGNALS_MOST],
        format_func=evidence.label,
        key=f"signals_{opened_ms}",
        max_selections=SIGNALS_MOST,
    )
    for name in picked:
        st.markdown(f"**{evidence.label(name)}**")
        shown = evidence.curves(frames, opened_ms, [name])
        st.altair_chart(alert_charts.signal(shown, name, cleared_s), key=f"evidence_{name}")
