"""Alerts and crash records in a real browser, behind a real sign-in: who may do what, what comes of it."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote_plus

import psycopg
import pytest
from playwright.sync_api import Browser, Locator, expect

from dashboard.basemap import COLOURS
from dashboard.routes import bundle_address
from infra.clients.db import system_user
from infra.contract.downlink import Silences
from infra.contract.legal_basis import legal_basis
from infra.sql import tenants
from infra.stack.stack import Stack
from load_tests.dashboard.oidc_provider import Provider, provider, settings_file
from stream_jobs.alerts.store import alert_store
from stream_jobs.audit_log.refusals import NOBODY, Refusal, of_program
from stream_jobs.crashes import bundle, tables
from tests import support_rows
from tests.integration.browser_support import SEEN_S, Visit, desk, drawn, near, pixels_of, visit
from tests.integration.dashboard_support import REFRESH_S, START_S, status
from tests.rows.found import alerts
from tests.rows.town import vehicle_id
from tests.support import Lane, eventually, open_lane
from tests.support_tiles import write_tiles

pytestmark = pytest.mark.integration

ADA, VIC, ROOT, EVE = "ada@example.org", "vic@example.org", "root@example.org", "eve@example.org"
ANN, BOB, DAN = "ann@north.example", "bob@south.example", "dan@drivers.example"
ROLES = f"""viewer = ["{VIC}", "{ANN}", "{BOB}"]
dispatcher = ["{ADA}"]
admin = ["{ROOT}"]
driver = ["{DAN}"]
fleet_claim = "fleets"
operator = ["{VIC}", "{ADA}", "{ROOT}"]"""
CRASH = (vehicle_id(7), 1, "c-1")
COURT = legal_basis("court-order: docket 7")
HOSTILE = '<img src="http://198.51.100.1/i.png"> ![i](http://198.51.100.1/j.png) **bold**'


LAND = {"earth": (8.0, 48.5, 9.0, 49.5), "water": (8.36, 49.0, 8.395, 49.03)}
"""The basemap: the town's north-west is a lake, where the coast lines know of land only."""


@dataclass(frozen=True, slots=True)
class Site:
    """A dashboard with sign-in, and who signs people in."""

    lane: Lane
    base: str
    issuer: Provider

    def fetch(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.lane.endpoints.db_ingest_url) as connection:
            return connection.execute(query.encode(), values).fetchall()

    def execute(self, statement: str, *values: object) -> None:
        with psycopg.connect(self.lane.endpoints.db_ingest_url) as connection:
            connection.execute(statement.encode(), values)


@pytest.fixture(scope="module")
def site(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    file = tmp_path_factory.mktemp("oidc") / "oidc.toml"
    tiles = file.with_name("town.pmtiles")
    chosen = {"oidc": file, "basemap": str(tiles), "refresh_s": REFRESH_S}
    with provider() as issuer, open_lane(stack, topics=False, dashboard=chosen) as lane:
        write_tiles(tiles, LAND, 12, "© Somebody")
        base = f"http://127.0.0.1:{lane.endpoints.http_ports['dashboard']}"
        file.touch(0o600)
        file.write_text(settings_file(issuer, base, ROLES))
        with lane.process("dashboard") as process:
            with psycopg.connect(lane.endpoints.db_ingest_url) as connection:  # while the dashboard starts
                support_rows.fill(connection, datetime.now(UTC))
            eventually(lambda: process.assert_running() or status(base, "/readyz") == 200, START_S, "ready")
            yield Site(lane, base, issuer)


@contextmanager
def signed_in(
    browser: Browser, site: Site, name: str, path: str, fleets: tuple[str, ...] = ()
) -> Iterator[Visit]:
    """A reader who asks for ``path`` and is asked to sign in first; of ``fleets`` in a small window."""
    site.issuer.claims = {"sub": name, "email": name, "email_verified": True, "fleets": [*fleets]}
    width, height = (1000, 600) if fleets else (1500, 800)
    with desk(browser, width=width, height=height) as context, visit(context, site.base) as reader:
        reader.page.goto(site.base + path)
        reader.page.get_by_role("button", name="Sign in").click()
        expect(reader.page.get_by_role("button", name="Sign out")).to_be_visible()
        yield reader
        assert reader.complaints == []
        assert [url for url in reader.outside() if not url.startswith(site.issuer.base)] == []


@pytest.fixture(scope="module")
def ada(browser: Browser, site: Site) -> Iterator[Visit]:
    """Ada's desk: she stays signed in for the tests of this module."""
    with signed_in(browser, site, ADA, "/alerts?alert=1") as reader:
        expect(reader.page.get_by_text("Data as of")).to_be_visible()
        yield reader


@pytest.fixture
def dispatcher(ada: Visit) -> Iterator[Visit]:
    """Ada, whose page is closed after each test: an open one goes on drawing maps."""
    yield ada
    ada.page.goto("about:blank")


def button(reader: Visit, name: str) -> Locator:
    return reader.page.get_by_role("button", name=name)


def test_who_signs_in_comes_to_the_alert_they_asked_for_and_sees_what_its_rule_saw(
    dispatcher: Visit, site: Site
) -> None:
    expect(dispatcher.page).to_have_url(f"{dispatcher.base}/alerts?alert=1")
    expect(dispatcher.page.get_by_role("heading", name="Alert 1")).to_be_visible()
    expect(dispatcher.page.get_by_text(ADA).first).to_be_visible()
    expect(dispatcher.page.get_by_text("Local only")).to_have_count(0)
    for label, value in {"Worst": "112.5", "Limit": "105.0", "Findings": "42"}.items():
        expect(dispatcher.metric(label)).to_have_text(value)
    expect(dispatcher.page.get_by_text("60 frames, 30 s before to 30 s after")).to_be_visible()
    chart = dispatcher.page.get_by_test_id("stVegaLiteChart").first
    expect(chart.get_by_text("Coolant, °C")).to_be_visible()
    expect(chart.get_by_text("limit", exact=True)).to_be_visible()
    fetch = "address => fetch(address).then(answer => answer.status)"
    assert dispatcher.page.evaluate(fetch, "/map/roads.json") == 200
    for path in ("/map/roads.json", "/map/vehicles.json"):
        assert status(site.base, path) == 403
    assert status(site.base, "/livez") == 200


def test_acknowledging_changes_the_table_the_history_and_the_row(dispatcher: Visit, site: Site) -> None:
    dispatcher.open("/alerts?alert=4")
    dispatcher.page.get_by_label("Note").fill("battery changed")
    button(dispatcher, "Acknowledge").click()
    expect(dispatcher.page.get_by_text("Acknowledged.")).to_be_visible()
    expect(dispatcher.page.get_by_text("WARNING · active, seen")).to_be_visible()
    expect(dispatcher.page.get_by_text(f"acknowledged by {ADA}")).to_contain_text("battery changed")
    expect(button(dispatcher, "Acknowledge")).to_have_count(0)
    query = "SELECT acknowledged_by, note FROM odograph.alert WHERE alert_no = 4"
    assert site.fetch(query) == [(ADA, "battery changed")]
    query = "SELECT vehicle_id FROM serving.audit_log WHERE actor = %s AND action = 'vehicle viewed'"
    assert (vehicle_id(25),) in site.fetch(query, ADA)


def test_keys_go_through_the_list_and_the_address_follows(dispatcher: Visit) -> None:
    dispatcher.open("/alerts?alert=2")
    expect(dispatcher.page.get_by_role("heading", name="Alert 2")).to_be_visible()
    for key, number in (("j", 1), ("j", 5), ("k", 1)):
        dispatcher.still()  # until then the old page's buttons stand beside the new one's
        expect(button(dispatcher, "Next")).to_be_enabled()
        dispatcher.page.keyboard.press(key)
        expect(dispatcher.page).to_have_url(re.compile(rf"alert={number}\b"))
        expect(dispatcher.page.get_by_role("heading", name=f"Alert {number}")).to_be_visible()
    dispatcher.click_row(dispatcher.page.get_by_test_id("stDataFrame").first, r"alert=2\b", 300)
    dispatcher.page.keyboard.press("ArrowDown")
    expect(dispatcher.page).to_have_url(re.compile(r"alert=1\b"))


def test_the_list_stands_still_while_an_alert_is_open_and_says_what_came(
    dispatcher: Visit, site: Site
) -> None:
    dispatcher.open("/alerts?alert=1&severity=CRITICAL")
    expect(dispatcher.page.get_by_text("1 alert.")).to_be_visible()
    row = alerts(datetime.now(UTC))[1] | {
        "vehicle_id": vehicle_id(9),
        "first_alert_id": "later",
        "message": HOSTILE,
    }
    with psycopg.connect(site.lane.endpoints.db_ingest_url) as connection:
        support_rows.insert(connection, "alert", [row])
    expect(button(dispatcher, "1 new: show")).to_be_visible()
    dispatcher.page.keyboard.press("j")
    expect(dispatcher.page).to_have_url(re.compile(r"alert=2\b"))
    dispatcher.still()  # until then the old list's button stands beside the new one's
    button(dispatcher, "1 new: show").click()
    expect(button(dispatcher, "1 new: show")).to_have_count(0)
    dispatcher.page.keyboard.press("k")  # as old as the other and noted later: it stands above
    expect(dispatcher.page).to_have_url(re.compile(r"alert=(?!2\b)\d+"))
    expect(dispatcher.page.get_by_text(f"v1 · {HOSTILE}")).to_be_visible()
    dispatcher.open("/alerts?alert=1")
    ((active,),) = site.fetch("SELECT count(*) FROM serving.alert_triage WHERE active")
    expect(dispatcher.page.get_by_text(f"{active} alerts.")).to_be_visible()
    site.execute("DELETE FROM odograph.alert WHERE first_alert_id = 'later'")  # the first row of the list
    expect(dispatcher.page.get_by_text(f"{active - 1} alerts.")).to_be_visible()
    dispatcher.click_row(dispatcher.page.get_by_test_id("stDataFrame").first, r"alert=2\b", 300)


def test_a_silence_is_in_the_table_in_the_file_and_on_the_page(dispatcher: Visit, site: Site) -> None:
    dispatcher.open("/alerts?alert=5")
    button(dispatcher, "Silence").click()
    form = dispatcher.page.get_by_role("dialog")
    form.get_by_label("Why").fill("road works")
    form.get_by_text("this rule on all vehicles").click()
    form.get_by_role("button", name="Silence").click()
    expect(dispatcher.page.get_by_text("Silenced until")).to_be_visible()
    query = "SELECT rule, vehicle_id, by_whom, why FROM odograph.alert_silence WHERE until_at > now()"
    assert site.fetch(query) == [("speeding", None, ADA, "road works")]
    now_ms = round(datetime.now(UTC).timestamp() * 1000)
    assert Silences(site.lane.home).cover(vehicle_id(30), "speeding", now_ms)


def test_a_silence_is_ended_on_the_page_in_the_table_and_in_the_file(dispatcher: Visit, site: Site) -> None:
    with alert_store(site.lane.endpoints.db_dispatch_url) as store:
        made = store.silence("coolant_hot", vehicle_id(31), 600, "M. Weber", "in the workshop")
    dispatcher.open("/alerts?view=Silences")
    row = dispatcher.page.locator(f".st-key-silence_row_{made['silence_no']}")
    expect(row).to_contain_text(f"coolant_hot · {vehicle_id(31)}")
    row.get_by_role("button", name="End now").click()
    form = dispatcher.page.get_by_role("dialog")
    expect(form.get_by_text(f"as {ADA}")).to_be_visible()
    form.get_by_role("button", name="End this silence").click()
    expect(dispatcher.page.get_by_text("The silence is over.")).to_be_visible()
    expect(row).to_have_count(0)
    query = "SELECT ended_by, until_at <= now() FROM odograph.alert_silence WHERE silence_no = %s"
    assert site.fetch(query, made["silence_no"]) == [(ADA, True)]
    now_ms = round(datetime.now(UTC).timestamp() * 1000)
    assert not Silences(site.lane.home).cover(vehicle_id(31), "coolant_hot", now_ms)


def test_an_incident_is_assigned_commented_acknowledged_and_silenced_by_its_cause(
    dispatcher: Visit, site: Site
) -> None:
    ((number,),) = site.fetch("SELECT incident_no FROM odograph.alert WHERE alert_no = 3")
    dispatcher.open(f"/alerts?incident={number}")
    expect(dispatcher.page.get_by_role("heading", name=f"Incident {number}")).to_be_visible()
    expect(dispatcher.page.get_by_text("MINOR · active, new · tyre rear left")).to_be_visible()
    for way, label, words in (
        ("Assign", "To whom", "workshop"),
        ("Comment", "Comment", HOSTILE),
        ("Silence", "Why", "on its way to the workshop"),
    ):
        dispatcher.still()
        button(dispatcher, way).click()
        form = dispatcher.page.get_by_role("dialog")
        form.get_by_label(label, exact=True).fill(words)
        form.get_by_role("button", name=way).click()
        expect(form).to_have_count(0)
    expect(dispatcher.metric("Assigned to")).to_have_text("workshop")
    dispatcher.still()
    dispatcher.page.get_by_label("Note").fill("slow leak")
    button(dispatcher, "Acknowledge").click()
    expect(dispatcher.page.get_by_text("MINOR · active, seen, silenced · tyre rear left")).to_be_visible()
    query = "SELECT kind, by_whom, text FROM odograph.incident_note WHERE incident_no = %s ORDER BY note_no"
    assert site.fetch(query, number) == [
        ("assigned", ADA, "workshop"),
        ("comment", ADA, HOSTILE),
        ("silenced", ADA, "on its way to the workshop"),
        ("acknowledged", ADA, "slow leak"),
    ]
    query = "SELECT cause, vehicle_id FROM odograph.alert_silence WHERE cause IS NOT NULL"
    assert site.fetch(query) == [("tyre rear left", vehicle_id(3))]
    assert HOSTILE not in dispatcher.page.content()


def test_who_may_only_look_finds_no_form_and_sees_nothing_without_a_role_and_all_again_with_it(
    browser: Browser, site: Site
) -> None:
    file = site.lane.settings.dashboard.oidc
    assert file is not None
    whole = file.read_text()
    with signed_in(browser, site, VIC, "/alerts?alert=1") as reader:
        expect(
            reader.page.get_by_text("You are here as viewer; this takes dispatcher or admin.")
        ).to_be_visible()
        expect(button(reader, "Acknowledge")).to_have_count(0)
        expect(reader.page.get_by_text("Data as of")).to_be_visible()
        assert reader.page.context.request.get(reader.base + "/map/vehicles.json").status == 200
        file.write_text(whole.replace(f'viewer = ["{VIC}", ', "viewer = ["))
        try:
            assert reader.page.context.request.get(reader.base + "/map/vehicles.json").status == 403
            expect(reader.page.get_by_text("has no role here")).to_be_visible()
            expect(reader.page.get_by_text("Data as of")).to_have_count(0)
        finally:
            file.write_text(whole)
        expect(reader.page.get_by_text("Data as of")).to_be_visible()
        file.chmod(0o644)
        os.utime(file)
        try:
            expect(reader.page.get_by_text("The file of roles cannot be read")).to_be_visible()
            expect(reader.page.get_by_text("Data as of")).to_have_count(0)
            assert reader.page.context.request.get(reader.base + "/map/vehicles.json").status == 503
        finally:
            file.chmod(0o600)
        expect(reader.page.get_by_text("Data as of")).to_be_visible()
        reader.complaints.clear()  # maps that it still asked for


def test_who_has_no_role_sees_nothing(browser: Browser, site: Site) -> None:
    with signed_in(browser, site, EVE, "/alerts") as reader:
        expect(reader.page.get_by_text("has no role here")).to_be_visible()
        expect(reader.page.get_by_test_id("stDataFrame")).to_have_count(0)
        expect(reader.page.get_by_text("Data as of")).to_have_count(0)
    query = "SELECT DISTINCT actor, action FROM serving.audit_log WHERE detail = %s"
    assert site.fetch(query, EVE) == [(system_user(), "sign-in refused")]


def test_a_crash_record_is_shown_and_its_bundle_leaves_as_the_command_makes_it(
    browser: Browser, site: Site
) -> None:
    with signed_in(browser, site, ROOT, f"/crashes?record={'/'.join(map(str, CRASH))}") as reader:
        expect(reader.metric("Delta-V, largest")).to_have_text("-27 km/h")
        expect(reader.page.get_by_role("heading", name="The 20 s before time zero")).to_be_visible()
        expect(reader.page.get_by_test_id("stVegaLiteChart").first.get_by_text("air bag")).to_be_visible()
        expect(reader.page.get_by_text("49.00690, 8.40370")).to_be_visible()
        reader.still()
        reader.choose("Legal basis", "court-order")
        expect(reader.page.locator("a[href*='basis=court-order']")).not_to_have_count(0)
        reader.still()
        reader.page.get_by_label("Reference").fill(COURT.reference)
        reader.page.get_by_label("Reference").press("Enter")
        expect(reader.page.locator(f"a[href*='{quote_plus(str(COURT))}']")).to_be_visible()
        assert reader.page.locator("a.data[href*='key=delta_v']").count() == 0
        reader.still()  # a click beside a link that the page moves is lost
        with reader.page.expect_download() as started:
            reader.page.get_by_role("link", name="Download the bundle").click()
        body = started.value.path().read_bytes()
    assert body == bundle.made(tables.evidence(site.lane.endpoints.db_dashboard_url, CRASH), COURT)
    query = "SELECT action FROM serving.audit_log WHERE actor = %s GROUP BY action ORDER BY min(entry)"
    assert site.fetch(query, ROOT) == [("signed in",), ("vehicle viewed",), ("crash exported",)]
    query = "SELECT actor, detail, digest FROM odograph.custody WHERE action = 'exported'"
    assert site.fetch(query) == [("odograph_dispatch", f"{ROOT}, {COURT}", hashlib.sha256(body).hexdigest())]
    found = site.lane.run("crash", "verify", "--without-log").stdout.splitlines()
    unsigned = [line for line in found if "by nobody of this service" in line]  # no event store wrote them
    assert [line.split(" was ")[1].split()[0] for line in unsigned] == ["received", "locked"]
    assert found[-2:] == unsigned


def test_a_bundle_is_for_admins_and_for_the_dashboards_own_pages(dispatcher: Visit, site: Site) -> None:
    address = bundle_address(CRASH, ROOT, str(COURT))
    assert dispatcher.page.context.request.get(site.base + address).status == 403
    assert status(site.base, address) == 403
    assert site.fetch("SELECT count(*) FROM odograph.custody WHERE detail LIKE %s", f"{ADA}%") == [(0,)]


def test_maps_stand_on_the_tiles_of_a_local_file_that_only_who_signed_in_gets(
    dispatcher: Visit, site: Site
) -> None:
    sea = COLOURS["light"]["sea"]
    dispatcher.open("/")
    eventually(lambda: drawn(dispatcher, sea, 20_000), SEEN_S, "the lake under the fleet")
    expect(dispatcher.page.locator("[data-testid=stDeckGlJsonChart] .scale")).to_have_text("200 m")
    expect(dispatcher.page.get_by_text("© Somebody")).to_be_visible()
    asked = next(url for url in dispatcher.requests if "/map/ground/12/" in url)
    assert status(site.base, asked.removeprefix(site.base)) == 403
    dispatcher.open("/replay")
    played = dispatcher.page.locator("[data-part=map]")
    eventually(lambda: near(pixels_of(played), sea).sum() >= 20_000, SEEN_S, "the lake under the replay")


PAGES = ("/vehicle?vehicle={own}", "/vehicle?vehicle={other}", "/trips", "/replay", "/routing",
         "/alerts", "/alerts?view=Alerts", "/alerts?alert=1", "/alerts?alert=2",
         "/crashes", "/crashes?record={crash}", "/trips?trip={trip}", "/alerts?incident={incident}",
         "/operations")  # fmt: skip


def taken(reader: Visit) -> str:
    """All text of the page, of the files that it offers and of the fleet's layer."""
    expect(reader.page.get_by_text("Data as of").first).to_be_visible()
    reader.still()
    hrefs = reader.page.eval_on_selector_all("a.data", "links => links.map(a => a.getAttribute('href'))")
    files = [href for href in hrefs if href.endswith("CSV")]
    paths = [*files, "/map/vehicles.json"]
    return "".join([reader.page.content(), *(fetched(reader, path) for path in paths)])


def refused(site: Site) -> set[Refusal]:
    """What the dashboard's log tells the audit log."""
    told = map(of_program, (site.lane.home / "logs" / "dashboard.log").read_text().splitlines())
    return {one[1] for one in told if one is not None}


def fetched(reader: Visit, path: str) -> str:
    return reader.page.context.request.get(reader.base + path).text()


def test_who_signs_in_for_a_fleet_finds_no_other_vehicle_on_any_page_file_or_layer(
    browser: Browser, site: Site
) -> None:
    north, south = {vehicle_id(n) for n in range(1, 36, 2)}, {vehicle_id(n) for n in range(0, 36, 2)}
    for fleet, vehicles in (("north", north), ("south", south)):
        tenants.give(site.lane.endpoints.db_owner_url, fleet, sorted(vehicles))
    own, other, crash = vehicle_id(2), vehicle_id(3), "/".join(map(str, CRASH))
    ((trip,),) = site.fetch("SELECT min(trip_id) FROM odograph.trip WHERE vehicle_id = ANY(%s)", [*north])
    ((incident,),) = site.fetch("SELECT incident_no FROM odograph.alert WHERE alert_no = 2")  # of the crash
    with signed_in(browser, site, BOB, "/", fleets=("south",)) as bob:
        pages = [
            path.format(own=own, other=other, crash=crash, trip=trip, incident=incident) for path in PAGES
        ]
        for path in ("/", *pages):
            if path != "/":  # there he has come already
                bob.page.goto(bob.base + path)
            shown = taken(bob)
            named = {vin for vin in north if vin in shown} - {vin for vin in north if vin in path}
            assert (named, own in shown) == (set(), True), path
        assert ("Watermark defence" in shown, "the delay in force" in shown) == (True, False)  # of everybody
        for what in ("a vehicle", "a trip", "an alert", "an incident", "a crash record"):
            assert Refusal(BOB, f"{what}'s page: not one of theirs") in refused(site)
        assert Refusal(NOBODY, "/map/vehicles.json: no role") in refused(site)  # before anybody signed in
        (link,) = bob.page.eval_on_selector_all("a.data", "links => links.map(a => a.href)")[:1]
        with bob.page.expect_request("**/map/vehicles.json?*") as asked:
            bob.open("/")
        layer = asked.value.url.removeprefix(bob.base)
        bob.page.goto("about:blank")  # his session stays
        with signed_in(browser, site, ANN, "/", fleets=("north",)) as ann:
            assert ann.page.context.request.get(link).status == 410
            seen = taken(ann)
            assert ({vin for vin in south if vin in seen}, other in seen) == (set(), True)
            assert Refusal(ANN, "layer fleet: not one of theirs") not in refused(site)
            assert {vin for vin in south if vin in fetched(ann, layer)} == set()
            report = f"/report?day={datetime.now(UTC):%Y-%m-%d}"
            assert own not in fetched(ann, report)
            assert "nothing is stored" in fetched(ann, f"{report}&vehicle={own}").lower()
        for what in ("rows of a list or chart", "layer fleet", "a vehicle's report"):
            assert Refusal(ANN, f"{what}: not one of theirs") in refused(site)
            assert Refusal(BOB, f"{what}: not one of theirs") not in refused(site)
        file = site.lane.settings.dashboard.oidc
        assert file is not None
        whole = file.read_text()
        file.write_text(f'{whole}\n[fleets]\n"{BOB}" = []\n')
        assert own not in fetched(bob, "/map/vehicles.json")
        file.write_text(whole)
        assert own in fetched(bob, "/map/vehicles.json")
    with signed_in(browser, site, DAN, "/") as dan:
        expect(dan.page.get_by_text("No vehicle has reported yet.")).to_be_visible()
        assert {vin for vin in north | south if vin in fetched(dan, "/map/vehicles.json")} == set()
        tenants.lend(site.lane.endpoints.db_owner_url, DAN, other, 600.0)
        eventually(lambda: other in fetched(dan, "/map/vehicles.json"), SEEN_S, "the vehicle that was lent")
        assert {vin for vin in north | south if vin in fetched(dan, "/map/vehicles.json")} == {other}
