"""What a click leads to, whatever a slow browser's messages say meanwhile."""
# ruff: noqa: PLC0415  a script that AppTest runs is the source of a function alone

from __future__ import annotations

import re
import time

import pandas as pd
import pytest
from streamlit.proto.WidgetStates_pb2 import WidgetState, WidgetStates
from streamlit.testing.v1 import AppTest

from dashboard import query_cache
from dashboard.db import SlowError
from dashboard.shared import live
from infra.contract.errors import ServiceError

RUN_S = 60


def listing() -> None:
    import streamlit as st

    from dashboard.shared import live

    if st.session_state.pop("clicked", False):  # in the run of another part's timer
        st.session_state[live.PICKED] = lambda: st.query_params.update(card="V7")
    else:
        live.renew()
    st.text(st.query_params.get("card", "none"))


def test_a_choice_that_another_parts_timer_brought_outlives_a_message_of_the_old_address() -> None:
    page = AppTest.from_function(listing, default_timeout=RUN_S)
    page.session_state["clicked"] = True
    page.run()
    assert page.text[0].value == "none"
    page.query_params.clear()  # the browser has not heard of it
    page.run()
    assert page.text[0].value == "V7"


def leaving() -> None:
    import streamlit as st

    from dashboard.shared import live

    if st.session_state["now_s"] == 0:
        live.open_page("vehicle", vehicle="V7")
    elif not live._left():
        st.text("drawn")


def test_until_the_browser_has_left_each_drawing_says_where_to_go(monkeypatch: pytest.MonkeyPatch) -> None:
    page = AppTest.from_function(leaving, default_timeout=RUN_S)
    for now_s, goes in ((0.0, True), (1.0, True), (19.0, True), (21.0, False)):
        monkeypatch.setattr(live, "monotonic", lambda now_s=now_s: now_s)
        page.session_state["now_s"] = now_s
        page.run()
        said = [element.proto.body for element in page.get("html")]
        assert [("vehicle?vehicle=V7" in body) for body in said] == ([True] if goes else [])
        assert len(page.text) == (not goes)


def leading() -> None:
    import pandas as pd
    import streamlit as st

    from dashboard.shared import live

    def trips() -> None:
        rows = pd.DataFrame({"trip_id": st.session_state["rows"]})
        live.leading(rows, {"Trip": "trip_id"}, "trips", "Trips", "trip_id")

    live.part(trips)


def test_a_click_on_a_row_leads_to_what_stood_there_though_newer_rows_have_come() -> None:
    page = AppTest.from_function(leading, default_timeout=RUN_S)
    page.session_state["rows"] = ["T1", "T2"]
    page.run()
    click = WidgetState(id=page.dataframe[0].proto.id)
    click.string_value = '{"selection": {"rows": [], "columns": [], "cells": [[0, "Trip"]]}}'
    page.session_state["rows"] = ["T3", "T1", "T2"]
    page._run(WidgetStates(widgets=[click]))
    said = "".join(element.proto.body for element in page.get("html"))
    assert re.findall(r'assign\("(.*?)"\)', said) == ["trips?trip=T1"]


def one_figure() -> None:
    import streamlit as st

    from dashboard import query_cache
    from dashboard.shared import live, queries

    rows = query_cache.ask(queries.road_networks)
    st.text("unknown" if rows is None else str(rows["version"].item()))
    st.text(f"{query_cache.away()} {sorted(query_cache.too_slow())} {live.road_address()}")


def test_a_slow_figure_is_named_and_is_no_outage(monkeypatch: pytest.MonkeyPatch) -> None:
    page = AppTest.from_function(one_figure, default_timeout=RUN_S)
    monkeypatch.setattr(live, "network", lambda: {"version": "town-256"})
    slow = SlowError("road networks took too long")
    answers = {"known": "town-256", "slow": slow, "away": ServiceError("the database is away"), "back": "new"}
    said = []
    for answer in answers.values():
        query_cache.cache().drop("")

        def run_now(_: object, answer: object = answer) -> pd.DataFrame:
            if isinstance(answer, ServiceError):
                raise answer
            found = pd.DataFrame({"version": [answer]})
            found.attrs[query_cache.ASKED] = time.monotonic()
            return found

        monkeypatch.setattr(query_cache, "run_now", run_now)
        page.run()
        said.append(tuple(text.value for text in page.text))
    roads = "/map/roads.json?v=town-256-"
    assert said == [
        ("town-256", f"False [] {roads}0"),
        ("town-256", f"False ['road networks'] {roads}0"),
        ("town-256", f"True [] {roads}0"),
        ("new", f"False [] {roads}1"),
    ]


def test_new_roads_and_those_after_an_outage_have_a_new_address(monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for network, outages in (({"version": "town-256"}, 0), ({"version": "town-256"}, 1), ({}, 1)):
        monkeypatch.setattr(live, "network", lambda network=network: network)
        monkeypatch.setattr(live, "outages", lambda outages=outages: outages)
        found.append(live.road_address())
    assert found == ["/map/roads.json?v=town-256-0", "/map/roads.json?v=town-256-1", None]
