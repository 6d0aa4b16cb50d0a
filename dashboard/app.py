"""Navigation only: which pages there are and how they are grouped."""

from typing import Final

import streamlit as st

from dashboard import auth, player
from dashboard.shared import pictures, theme

PAGES: Final = {
    "Fleet": {"Fleet": "map", "Vehicle": "directions_car", "Trips": "route", "Replay": "replay",
              "Routing": "alt_route", "Alerts": "notifications", "Crashes": "car_crash"},
    "Service": {"Operations": "monitor_heart"},
}  # fmt: skip
"""By group the pages, whose folders below ``screens`` have their names, with their icons; the first opens."""


def page(name: str, icon: str) -> st.Page:
    """A page by its name."""
    file, look = f"screens/{name.lower()}/page.py", f":material/{icon}:"
    return st.Page(file, title=name, icon=look, url_path=name.lower(), default=name == "Fleet")


st.set_page_config(page_title="Odograph", page_icon=pictures.mark(), layout="wide")
st.logo(pictures.wordmark("dark" if st.context.theme.type == "dark" else "light"), size="large")
st.html(theme.STYLE)
st.html(player.DECK_SCALE, unsafe_allow_javascript=True)
auth.gate()
st.navigation({group: [page(*one) for one in pages.items()] for group, pages in PAGES.items()}).run()
