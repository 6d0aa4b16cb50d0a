"""The web server: Streamlit's pages and the routes beside them in one process."""

import atexit
import gc
import importlib
import pkgutil
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Any, Final

import pandas as pd
import pyarrow as pa
import streamlit as st
import structlog
import uvicorn
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import RedirectResponse
from starlette.types import Receive, Scope, Send

import dashboard
from dashboard import auth, routes
from dashboard.shared import theme
from infra.clients import basemap, log
from infra.contract.errors import ConfigError
from infra.settings import settings as contract
from infra.settings.sections import Dashboard

SCRIPT: Final = Path(__file__).with_name("app.py")


def serve(port: int, tls: str = "") -> None:
    """Serve until stopped; ``tls``: file of certificate and key (PEM), empty: plain http.

    Raises ConfigError where anybody could reach it and nobody has to sign in.
    """
    log.configure("dashboard")
    pd.set_option("mode.copy_on_write", True)  # readers share results: what one changes is its own
    settings = contract.load()
    chosen = settings.dashboard
    known = None if chosen.oidc is None else auth.load_roles(chosen.oidc)
    if known is None and not chosen.address.is_loopback:
        raise ConfigError(
            f"ODOGRAPH_DASHBOARD_ADDRESS {chosen.address}: others reach it and nobody has to sign in; "
            f"set {auth.OPTION}, or leave the address at 127.0.0.1"
        )
    problem = basemap.find(chosen.basemap).problem
    if problem:
        structlog.get_logger("dashboard").warning("basemap not used", problem=problem)
    pa.set_cpu_count(1)  # for tables of some hundred rows starting more threads costs more than it saves
    # Load what pages are drawn with, and let garbage collection pass over all that stays for ever: the first
    # reader does not wait for it then, and a collection takes a third of its time.
    for module in pkgutil.walk_packages(dashboard.__path__, "dashboard."):
        if not module.ispkg and module.name.rpartition(".")[2] not in ("app", "page"):  # these are scripts
            importlib.import_module(module.name)
    gc.collect()
    gc.freeze()
    atexit.register(gc.unfreeze)  # else DuckDB lists on standard error what is still there
    names = auth.served_names(chosen, known)
    check = Middleware(auth.HostCheck, names=names, secure=bool(tls))
    if tls and chosen.redirect_port:
        lead_to_tls(chosen, names, port)
    app = st.App(SCRIPT, routes=routes.routes(auth.known_roles, settings), middleware=[check])
    app.run(config=options(port, chosen, tls))


def lead_to_tls(chosen: Dashboard, names: frozenset[str], port: int) -> None:
    """Answer plain http, on a port and a thread of its own, with the same address under https at ``port``."""
    app = auth.HostCheck(partial(_over_tls, port), names)
    plain: dict[str, Any] = {"ws": "none", "lifespan": "off", "log_level": "warning"}
    config = uvicorn.Config(app, str(chosen.address), chosen.redirect_port, **plain)
    (listening := config.bind_socket()).listen(config.backlog)
    Thread(target=uvicorn.Server(config).run, args=([listening],), daemon=True).start()


async def _over_tls(port: int, scope: Scope, receive: Receive, send: Send) -> None:
    asked = Request(scope).url
    await RedirectResponse(asked.replace(scheme="https", port=port), 308)(scope, receive, send)


def options(port: int, chosen: Dashboard, tls: str = "") -> dict[str, Any]:
    """Streamlit's options: no browser opened, nothing sent to anyone, no file of secrets but ours."""
    return {
        "server.address": str(chosen.address),
        "server.port": port,
        **(dict.fromkeys(("server.sslCertFile", "server.sslKeyFile"), tls) if tls else {}),
        "server.headless": True,
        "server.fileWatcherType": "none",
        "server.showEmailPrompt": False,
        "browser.gatherUsageStats": False,
        "secrets.files": [] if chosen.oidc is None else [str(chosen.oidc.resolve())],
        "runner.postScriptGC": False,  # a full collection after each part of each reader: half of all time
        "runner.magicEnabled": False,  # it draws the words below a constant on the page
        "client.toolbarMode": "minimal",
        "client.showErrorDetails": "type",
        "client.showErrorLinks": False,
    } | theme.options()
