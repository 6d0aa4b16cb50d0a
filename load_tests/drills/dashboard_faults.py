"""C8: two dashboards behind one address, in turn by connection; the one that has the page is killed."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from playwright.sync_api import Page, Response

from infra.clients.db import session
from infra.stack import probes
from infra.stack.service import HOST, free_port
from infra.stack.supervisor import odograph
from load_tests.dashboard import month, oidc_provider, paint, pulse
from load_tests.drills.flow import Load
from load_tests.drills.link import Link
from load_tests.drills.site import Site, until
from load_tests.drills.verdict import Promise, Verdict

WHO: Final = "ada@example.org"
ROLES: Final = f'viewer = ["{WHO}"]'
READY_S: Final = 180.0
SHOWN_MS: Final = 90_000
GOES_ON_S: Final = 5.0
CALM_S: Final = 5.0
"""A page that is drawn is looked at for so long before the next kill."""
AFTER_S: Final = 0.3
STREAM: Final = b"/_stcore/stream"
SIGN_IN: Final = "Sign in"
PATH: Final = "/?traffic=cells"
OWN_SECRET: Final = "own-secret"


@dataclass  # the browser's client marks the object of a method that it calls
class Seen:
    """What a page had to do with the servers."""

    maps: int = 0
    """Answers with rows of maps."""
    refused: list[str] = field(default_factory=list)

    def note(self, response: Response) -> None:
        """An answer."""
        self.maps += "/map/" in response.url and response.ok
        if response.status >= 400:
            self.refused.append(f"{response.status} {response.url}")


def c8(site: Site, load: Load, mutant: str | None = None) -> Verdict:
    """Kill -9 the dashboard that has the reader's page, again and again; the other one goes on with it."""
    with session(site.endpoints.db_owner_url, autocommit=True) as connection:
        month.fill_now(connection, round(load.rate), site.say)
    ports = [free_port(), free_port()]
    names = {port: f"dashboard-{number}" for number, port in enumerate(ports, 1)}
    link = Link(HOST, ports[0], (HOST, ports[1]))
    with link, oidc_provider.provider() as issuer, pulse.driving(site.endpoints.db_ingest_url):
        issuer.claims = {"sub": "1", "email": WHO, "email_verified": True}
        base = f"http://{HOST}:{link.port}"
        file = site.home / "oidc.toml"
        file.write_text(oidc_provider.settings_file(issuer, base, ROLES))
        file.chmod(0o600)
        site.env["ODOGRAPH_DASHBOARD_OIDC"] = str(file)
        for port in ports:
            _start(site, names[port], port)
        for port in ports:
            until(partial(_ready, port), READY_S, f"{names[port]} is ready")
        with paint.browser() as opened:
            page, seen = opened.new_page(), Seen()
            page.on("response", seen.note)
            page.goto(base + PATH)
            page.get_by_role("button", name=SIGN_IN).click(timeout=SHOWN_MS)
            page.get_by_text(paint.HEADER).wait_for(timeout=SHOWN_MS)
            if mutant:  # what starts from now on signs cookies of its own
                file.write_text(oidc_provider.settings_file(issuer, base, ROLES))
            gaps_s = []
            for _ in range(load.times):
                page.wait_for_timeout(1000 * CALM_S)
                gaps_s.append(_killed(site, page, link, names))
            page.wait_for_timeout(1000 * CALM_S)
            asked_again = page.get_by_role("button", name=SIGN_IN).count()
    promises = (
        Promise(f"the page goes on within {GOES_ON_S:g} s", max(gaps_s) <= GOES_ON_S, f"{gaps_s} s"),
        Promise("signed in once", issuer.signed_in == 1 and not asked_again, f"{issuer.signed_in} times"),
        Promise("no request is refused", not seen.refused and seen.maps > 0,
                "; ".join(dict.fromkeys(seen.refused)) or f"{seen.maps} times rows of maps"),
    )  # fmt: skip
    figures: dict[str, Any] = {"kills": load.times, "vehicles": round(load.rate), "gaps_s": gaps_s}
    return Verdict("c8", promises, figures, mutant)


def _start(site: Site, name: str, port: int) -> None:
    site.start(name, odograph("dashboard", "--port", str(port)))


def _ready(port: int) -> bool:
    return probes.readyz(port) is None


def _killed(site: Site, page: Page, link: Link, names: dict[int, str]) -> float:
    """Kill the dashboard with the page's channel; how long until the page's header has moved on, s."""
    (port,) = {port for port, said in [*link.open.values()] if STREAM in bytes(said)}
    site.kill(names[port])
    killed_s = time.monotonic()
    page.wait_for_timeout(1000 * AFTER_S)  # what was on its way is drawn
    header = page.get_by_text(paint.HEADER)
    before = header.all_inner_texts()

    def moved() -> bool:
        page.wait_for_timeout(50)
        asked = page.get_by_role("button", name=SIGN_IN).count() > 0
        shown = header.all_inner_texts()
        return asked or (len(shown) == 1 and shown != before)

    until(moved, READY_S, "the page goes on, or asks who is there")
    gap_s = round(time.monotonic() - killed_s, 1)
    _start(site, names[port], port)
    until(partial(_ready, port), READY_S, f"{names[port]} is back")
    return gap_s
