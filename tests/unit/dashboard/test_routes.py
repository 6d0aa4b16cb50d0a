"""Who gets a bundle by its address, and what is wrong with an address."""

from __future__ import annotations

import pytest
from starlette.requests import Request
from starlette.responses import Response

from dashboard import routes
from dashboard.auth import Roles
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
    route = routes.bundle_route(load(), lambda: known)
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


def test_where_people_sign_in_the_address_alone_is_not_enough() -> None:
    known = Roles("email", {"admin": frozenset({"a@b.c"}), "dispatcher": frozenset(), "viewer": frozenset()})
    assert answer(GOOD, known=known).status_code == 403
