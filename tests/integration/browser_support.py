"""A browser on the real pages: what it asked for, what it complained of, what its canvas shows."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import numpy.typing as npt
from PIL import Image
from playwright.sync_api import Browser, BrowserContext, Locator, Page, expect

from dashboard.shared.theme import SERIES
from load_tests.dashboard import paint
from tests.support import eventually

SEEN_S = 180.0
"""Until something is on the page: two workers, two browsers and a pipeline may share two cores."""
WAIT_MS = 1000 * SEEN_S
FOLLOWED_MS = 30_000
LOCAL = ("data:", "blob:")
LEGEND_PX = 60
"""More pixels than a legend's stroke of its series' colour has."""

# A page opened by its own address asks for Streamlit's health below it first: 404 is the right answer.
PROBE = re.compile(r"/(vehicle|trips|routing|replay|alerts|crashes|operations)/_stcore/(health|host-config)$")

Pixels = npt.NDArray[np.uint8]


@contextmanager
def chromium() -> Iterator[Browser]:
    """Headless Chromium that has patience."""
    expect.set_options(timeout=WAIT_MS)
    with paint.browser() as opened:
        yield opened


@dataclass(slots=True)
class Visit:
    """One reader's visit: the page, and all that it asked for or complained of."""

    page: Page
    base: str
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def open(self, path: str) -> Visit:
        """Go to ``path`` and wait for the header line."""
        self.page.goto(self.base + path)
        expect(self.page.get_by_text("Data as of")).to_be_visible()
        return self

    def small(self) -> Visit:
        """In a window where a map costs half: for words and figures, not for pixels."""
        self.page.set_viewport_size({"width": 1000, "height": 600})
        return self

    def still(self) -> None:
        """Wait until no run of the page is under way: a click into a table that is drawn anew is lost."""
        expect(self.page.locator("[data-testid=stApp][data-test-script-state=notRunning]")).to_be_attached()

    def choose(self, label: str, option: str) -> None:
        """Choose ``option`` in a list. It closes on a scroll, of which it hears a frame later."""
        box = self.page.get_by_role("combobox", name=label)
        box.scroll_into_view_if_needed()
        self.page.evaluate("new Promise(told => requestAnimationFrame(() => requestAnimationFrame(told)))")
        box.click()
        self.page.get_by_role("option", name=option).click()

    def click_row(self, table: Locator, address: str, x: int = 60) -> None:
        """Click the first row of a table, ``x`` px from its left, until the page's address matches.

        What a reader sees is the canvas: the cells for screen readers come behind it, or not at all. It is
        drawn 47 px wide first; where Streamlit leaves it so, the window gets another width. A click into a
        table that is being drawn anew is lost: it is made again once the page stands still.
        """
        canvas = table.get_by_test_id("data-grid-canvas")

        def followed() -> bool:
            self.still()
            if (canvas.bounding_box() or {"width": 0})["width"] < 2 * x:
                size = self.page.viewport_size
                assert size is not None
                self.page.set_viewport_size({"width": size["width"] - 10, "height": size["height"]})
                return False
            table.click(position={"x": x, "y": 52})
            expect(self.page).to_have_url(re.compile(address), timeout=FOLLOWED_MS)
            return True

        eventually(followed, 2 * SEEN_S, f"a click on a row leads to {address}")

    def metric(self, label: str) -> Locator:
        """The value of the figure with this label."""
        tile = self.page.get_by_test_id("stMetric").filter(has=self.page.get_by_text(label, exact=True))
        return tile.get_by_test_id("stMetricValue")

    def outside(self) -> list[str]:
        """Requests that left this machine."""
        near = (self.base, self.base.replace("http://", "ws://"), *LOCAL)
        return [url for url in self.requests if not url.startswith(near)]


@contextmanager
def desk(
    browser: Browser, scheme: Literal["light", "dark"] = "light", width: int = 1500, height: int = 800
) -> Iterator[BrowserContext]:
    """A browser without history, in a zone far from the server's; its window, px."""
    context = browser.new_context(
        viewport={"width": width, "height": height}, color_scheme=scheme, timezone_id="Asia/Tokyo"
    )
    context.set_default_timeout(WAIT_MS)
    yield context
    context.close()


@contextmanager
def visit(context: BrowserContext, base: str) -> Iterator[Visit]:
    """One reader with a session of its own."""
    page = context.new_page()
    seen = Visit(page, base)
    page.on("request", lambda request: seen.requests.append(request.url))
    page.on("websocket", lambda socket: seen.requests.append(socket.url))
    page.on("pageerror", lambda error: seen.complaints.append(str(error)))
    page.on("console", lambda message: _note(seen, message.type, message.text, message.location["url"]))
    try:
        yield seen
    except AssertionError as error:
        error.add_note(f"{page.url} {seen.complaints}\n{page.locator('body').inner_text()}")
        raise
    finally:
        page.close()


def _note(seen: Visit, kind: str, words: str, url: str) -> None:
    if kind == "error" and PROBE.search(url) is None:
        seen.complaints.append(f"{words} {url}")


def charts_drawn(seen: Visit, least: int) -> Locator:
    """The charts of the page, at least so many, when each of them has its first series."""
    charts = seen.page.get_by_test_id("stVegaLiteChart")
    eventually(lambda: charts.count() >= least, SEEN_S, "charts")
    eventually(lambda: all(lined(chart) for chart in charts.all()), SEEN_S, "lines in every chart")
    return charts


def lined(chart: Locator) -> bool:
    """Whether a chart's first series is there."""
    return int(near(pixels_of(chart), SERIES[0], 40).sum()) > LEGEND_PX


def canvas(seen: Visit) -> Pixels:
    """What the map shows, [height, width, 3]."""
    return pixels_of(seen.page.get_by_test_id("stDeckGlJsonChart"))


def pixels_of(shown: Locator) -> Pixels:
    """A part of the page as it looks, [height, width, 3].

    Cut out of the page's picture: that of an element alone waits for it to stand still, and a busy machine
    that draws a live map in software may leave no two frames for that.
    """
    shown.evaluate("element => element.scrollIntoView({block: 'nearest'})")
    box = shown.bounding_box()
    assert box is not None, "it is not on the page"
    x, y, width, height = (box[name] for name in ("x", "y", "width", "height"))
    picture = shown.page.screenshot(clip={"x": x, "y": y, "width": width, "height": height})
    return np.asarray(Image.open(io.BytesIO(picture)).convert("RGB"))


def near(pixels: Pixels, colour: str, tolerance: int = 12) -> npt.NDArray[np.bool_]:
    """Where the picture has about this colour, [height, width]."""
    wanted = np.array([int(colour[k : k + 2], 16) for k in (1, 3, 5)])
    found: npt.NDArray[np.bool_] = (np.abs(pixels.astype(int) - wanted) <= tolerance).all(axis=2)
    return found


def drawn(seen: Visit, colour: str, least: int) -> bool:
    """Whether at least so many pixels of the map have about this colour."""
    return int(near(canvas(seen), colour).sum()) >= least
