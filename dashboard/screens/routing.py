"""Routing: traffic at any stored moment, where trips go, how good predicted arrivals are."""

from __future__ import annotations

import streamlit as st

from dashboard import live
from dashboard.screens import routing_arrivals, routing_flows, routing_traffic

SHOWN = {
    "Congestion": routing_traffic.page,
    "Origins and destinations": routing_flows.page,
    "Arrival times": routing_arrivals.page,
}

live.header("Routing")
shown = st.segmented_control(
    "Show",
    list(SHOWN),
    default="Congestion",
    required=True,
    key="show",
    bind="query-params",
    label_visibility="collapsed",
)
st.fragment(SHOWN[shown], run_every=live.every(live.SLOW_S))()
