"""Signing in, where it is set up: the door before the pages, and who the reader is."""

from __future__ import annotations

from typing import Final

import streamlit as st

from dashboard import roles, text
from dashboard.roles import Deed, Reader

LOCAL_WORDS: Final = (
    "Local only: no sign-in is set up. Whoever can open this page on this machine can act, under the name "
    "they give."
)
WANTED: Final = "odograph-wanted"
_KEEP: Final = f"""<script>
sessionStorage.setItem("{WANTED}", window.location.pathname + window.location.search)
</script>"""
_RETURN: Final = f"""<script>
const wanted = sessionStorage.getItem("{WANTED}")
sessionStorage.removeItem("{WANTED}")
const here = window.location.pathname + window.location.search
if (wanted && /^\\/(?![\\/\\\\])/.test(wanted) && wanted !== here) {{
  window.location.replace(wanted)
}}
</script>"""
"""Back to the page that was asked for, of this server only: signing in ends at the first page."""


def gate(known: roles.Roles | None) -> None:
    """Let nobody past who has to sign in and has not; say below the navigation who is here."""
    if known is None:
        st.sidebar.caption(LOCAL_WORDS)
        return
    if not st.user.is_logged_in:
        _ask()
    found = known.reader(st.user.to_dict())
    if found is None:
        _refuse()
        return
    if "returned" not in st.session_state:
        st.session_state["returned"] = True
        st.html(_RETURN, unsafe_allow_javascript=True)
    with st.sidebar:
        st.text(f"{found.name}\n{found.role}")
        st.button("Sign out", on_click=st.logout, icon=":material/logout:", type="tertiary")


def reader(known: roles.Roles | None) -> Reader:
    """Who looks at the page, asked anew at each deed."""
    found = roles.LOCAL if known is None else known.reader(st.user.to_dict())
    if found is None:
        st.stop()
    return found


def why_not(who: Reader, deed: Deed) -> str:
    """Why a reader may not do something, in words."""
    wanted = " or ".join(role for role, deeds in roles.MAY.items() if deed in deeds)
    return f"You are here as {who.role}; this takes {wanted}."


def name_field(who: Reader, key: str) -> str:
    """Under which name something is done: that of who signed in, else the one given here."""
    if not who.local:
        st.text(f"as {who.name}")
        return who.name
    given = st.text_input("Your name", value=st.session_state.get("who", ""), key=key, max_chars=80)
    return str(given).strip()


def remember(who: Reader, name: str) -> None:
    """The name given stays for the session."""
    if who.local:
        st.session_state["who"] = name


def _ask() -> None:
    st.header("Odograph", anchor=False)
    st.write("Sign in to see the fleet.")
    st.button("Sign in", on_click=st.login, icon=":material/login:", type="primary")
    st.html(_KEEP, unsafe_allow_javascript=True)
    st.stop()


def _refuse() -> None:
    st.header("Odograph", anchor=False)
    name = text.plain(st.user.to_dict().get("email") or st.user.to_dict().get("sub"))
    st.error(f"{name} is signed in and has no role here. Ask whoever runs this service.")
    st.button("Sign out", on_click=st.logout, icon=":material/logout:")
    st.stop()
