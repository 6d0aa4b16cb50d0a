"""Navigation only: which pages there are and how they are grouped."""

import streamlit as st

from dashboard import icons, live, signin, theme

st.set_page_config(page_title="Odograph", page_icon=icons.mark(), layout="wide")
st.logo(icons.wordmark("dark" if st.context.theme.type == "dark" else "light"), size="large")
st.html(theme.STYLE)
signin.gate(live.known_roles())
st.navigation(
    {
        "Fleet": [
            st.Page("screens/fleet.py", title="Fleet", icon=":material/map:", default=True),
            st.Page("screens/vehicle.py", title="Vehicle", icon=":material/directions_car:"),
            st.Page("screens/trips.py", title="Trips", icon=":material/route:"),
            st.Page("screens/replay.py", title="Replay", icon=":material/replay:"),
            st.Page("screens/routing.py", title="Routing", icon=":material/alt_route:"),
            st.Page("screens/alerts.py", title="Alerts", icon=":material/notifications:"),
            st.Page("screens/crashes.py", title="Crashes", icon=":material/car_crash:"),
        ],
        "Service": [st.Page("screens/operations.py", title="Operations", icon=":material/monitor_heart:")],
    }
).run()
