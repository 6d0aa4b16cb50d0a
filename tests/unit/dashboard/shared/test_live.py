"""What a click leads to, whatever a slow browser's messages say meanwhile."""
# ruff: noqa: PLC0415  a script that AppTest runs is the source of a function alone

from __future__ import annotations

import pytest
from streamlit.testing.v1 import AppTest

from dashboard.shared import live


def listing() -> None:
    import streamlit as st

    from dashboard.shared import live

    if st.session_state.pop("clicked", False):  # in the run of another part's timer
        st.session_state[live.PICKED] = lambda: st.query_params.update(card="V7")
    else:
        live.renew()
    st.text(st.query_params.get("card", "none"))


def test_a_choice_that_another_parts_timer_brought_outlives_a_message_of_the_old_address() -> None:
    page = AppTest.from_function(listing)
    page.session_state["clicked"] = True
    page.run()
    assert page.text[0].value == "none"
    page.query_params.clear()  # the browser has not heard of it
    page.run()
    assert page.text[0].value == "V7"


def leaving() -> None:
    import streamlit as st

    from dashboard.shared import live

    live.monotonic = lambda: st.session_state["now_s"]  # type: ignore[attr-defined]
    if st.session_state["now_s"] == 0:
        live.open_page("vehicle", vehicle="V7")
    elif not live._left():
        st.text("drawn")


def test_until_the_browser_has_left_each_drawing_says_where_to_go() -> None:
    page = AppTest.from_function(leaving)
    for now_s, goes in ((0.0, True), (1.0, True), (19.0, True), (21.0, False)):
        page.session_state["now_s"] = now_s
        page.run()
        said = [element.proto.body for element in page.get("html")]
        assert [("vehicle?vehicle=V7" in body) for body in said] == ([True] if goes else [])
        assert len(page.text) == (not goes)


def test_new_roads_and_those_after_an_outage_have_a_new_address(monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for network, outages in (({"version": "town-256"}, 0), ({"version": "town-256"}, 1), ({}, 1)):
        monkeypatch.setattr(live, "network", lambda network=network: network)
        monkeypatch.setattr(live, "outages", lambda outages=outages: outages)
        found.append(live.road_address())
    assert found == ["/map/roads.json?v=town-256-0", "/map/roads.json?v=town-256-1", None]
