"""Navigation only: which pages there are and how they are grouped."""

import streamlit as st

from dashboard import auth, player
from dashboard.shared import pictures, theme


def page(name: str, icon: str, default: bool = False) -> st.Page:
    """A page by the name of its folder below ``screens``."""
    folder = name.lower()
    return st.Page(
        f"screens/{folder}/page.py", title=name, icon=f":material/{icon}:", url_path=folder, default=default
    )


st.set_page_config(page_title="Odograph", page_icon=pictures.mark(), layout="wide")
st.logo(pictures.wordmark("dark" if st.context.theme.type == "dark" else "light"), size="large")
st.html(theme.STYLE)
st.html(player.DECK_SCALE, unsafe_allow_javascript=True)
auth.gate()
st.navigation(
    {
        "Fleet": [
            page("Fleet", "map", default=True),
            page("Vehicle", "directions_car"),
            page("Trips", "route"),
            page("Replay", "replay"),
            page("Routing", "alt_route"),
            page("Alerts", "notifications"),
            page("Crashes", "car_crash"),
        ],
        "Service": [page("Operations", "monitor_heart")],
    }
).run()
