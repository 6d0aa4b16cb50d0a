"""Who gets a bundle by its address, and what is wrong with an address."""

from __future__ import annotations

import gzip

import pandas as pd
import pytest
from starlette.requests import Request
from starlette.responses import Response
from structlog.testing import capture_logs

from dashboard import routes
from dashboard.auth import UNREADABLE, Reader, Roles
from dashboard.db import NUMBER
from dashboard.query_cache import VehicleScope, acting, cache, scoped
from infra.contract.errors import ConfigError
from infra.settings.settings import load

KEY = ("WDB1240001A000001", 1, "c 1/2")
BASIS = "consent: form 7"
GOOD = routes.bundle_address(KEY, "A. Costa", BASIS)


def answer(
    address: str, method: str = "GET", origin: str | None = "same-origin", known: Roles | None = None
) -> Response:
    path, _, query = address.partition("?")
    headers = [] if origin is None else [(b"sec-fetch-site", origin.encode())]
    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "query_string": query.encode(),
        "headers": headers,
    }
    route = routes.answering(routes.bundle_route(load()), lambda: known)
    found: Response = route.endpoint(Request(scope))
    return found


def test_the_address_holds_whatever_a_vehicle_calls_its_record() -> None:
    whose = "vehicle=WDB1240001A000001&boot=1&crash=c+1%2F2&by=A.+Costa"
    assert f"/crash/bundle?{whose}&basis=consent%3A+form+7" == GOOD


@pytest.mark.parametrize(("method", "origin"), [("GET", "cross-site"), ("GET", "same-site"), ("HEAD", None)])
def test_only_the_dashboards_own_pages_lead_there(method: str, origin: str | None) -> None:
    assert answer(GOOD, method, origin).status_code == 403


@pytest.mark.parametrize(
    "address",
    [
        routes.bundle_address(KEY, " ", BASIS),
        routes.bundle_address(KEY, "a\nb", BASIS),
        routes.bundle_address(KEY, "A. Costa", ""),
        routes.bundle_address(KEY, "A. Costa", "curiosity: mine"),
        routes.bundle_address(KEY, "A. Costa", "court-order: "),
        GOOD.replace("boot=1", "boot=x"),
        GOOD.replace("crash=", "other="),
        routes.BUNDLE_PATH,
    ],
)
def test_an_address_without_a_record_a_name_or_a_legal_basis_is_refused(address: str) -> None:
    refused = answer(address)
    assert refused.status_code == 400
    assert bytes(refused.body).startswith(b"bad address: ")


@pytest.mark.parametrize("error", [ConfigError("others may read it"), FileNotFoundError()])
def test_while_the_file_of_roles_cannot_be_read_all_are_told_so_and_get_nothing(error: Exception) -> None:
    def unreadable() -> Roles | None:
        raise error

    route = routes.answering(routes.bundle_route(load()), unreadable)
    found: Response = route.endpoint(Request({"type": "http", "headers": []}))
    assert (found.status_code, bytes(found.body).decode()) == (503, f"{UNREADABLE}\n")


def test_where_people_sign_in_the_address_alone_is_not_enough() -> None:
    known = Roles("email", {"admin": frozenset({"a@b.c"}), "dispatcher": frozenset(), "viewer": frozenset()})
    assert answer(GOOD, known=known).status_code == 403


def test_who_asks_for_a_layer_that_another_fleet_has_gets_their_own_and_is_told_of() -> None:
    def rows(number: str) -> pd.DataFrame:
        frame = pd.DataFrame({"n": [number]})
        frame.attrs[NUMBER] = number
        return frame

    def asked(name: str, scope: VehicleScope | None) -> tuple[bytes, list[str]]:
        state = {"reader": Reader(name, "viewer", False, scope)}
        request = Request({"type": "http", "query_string": b"at=of-south", "headers": [], "state": state})
        with acting(scope), capture_logs() as told:
            body = routes._layer(request, "fleet", "all", lambda f: f["n"].tolist(), lambda: rows(name)).body
        return gzip.decompress(bytes(body)), [f"{one['who']} {one['event']}: {one['what']}" for one in told]

    south = VehicleScope(("south",))
    with acting(south):
        kept = cache().layer(scoped("fleet"), rows("of-south"))
    assert asked("ann", VehicleScope(("north",))) == (
        b'["ann"]', ["ann refused: layer fleet: not one of theirs"],
    )  # fmt: skip
    assert asked("bob", south) == (b'["of-south"]', [])
    assert asked("operator", None) == (b'["operator"]', [])
    assert kept.layer[1] == "of-south"
