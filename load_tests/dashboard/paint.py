"""What one person with a browser waits for, and what the browser keeps."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from playwright.sync_api import Browser, Page, sync_playwright

CHROMIUM: Final = Path("/usr/bin/chromium-headless-shell")
"""Chromium without the parts that draw a window: a page costs 13 % less CPU."""
ARGUMENTS: Final = (
    "--no-sandbox",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--use-gl=angle",
    "--use-angle=swiftshader",
    "--enable-unsafe-swiftshader",
    "--disable-gpu-rasterization",
    "--disable-gpu-compositing",
)
"""Without a graphics card WebGL is drawn in software. Only that: Debian's settings ask for pages put together
by WebGL as well, and five tests of the map took 127 s of CPU with that, 77 without.
"""
WAIT_MS: Final = 60_000
HEADER: Final = "Data as of"
BUSY: Final = "[data-testid=stSkeleton], [data-testid=stStatusWidgetRunningIcon]"
PAINTED: Final = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? null"


@dataclass(frozen=True, slots=True)
class Paint:
    """Of one visit, s: the first thing drawn; the header with its figures; every element of the page."""

    path: str
    cold: bool
    first_s: float | None
    header_s: float
    whole_s: float


@contextmanager
def browser() -> Iterator[Browser]:
    """Headless Chromium, WebGL in software, a new profile; FileNotFoundError where there is none."""
    if not CHROMIUM.exists():
        raise FileNotFoundError(f"{CHROMIUM} is missing; install it: odograph setup --browser")
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=list(ARGUMENTS))
        try:
            yield opened
        finally:
            opened.close()


def visits(opened: Browser, base: str, path: str, times: int) -> list[Paint]:
    """One visit with an empty cache, then others; a page of its own each."""
    context = opened.new_context(viewport={"width": 1600, "height": 1000})
    context.set_default_timeout(WAIT_MS)
    try:
        return [_visit(context.new_page(), base, path, cold=number == 0) for number in range(times)]
    finally:
        context.close()


def _visit(page: Page, base: str, path: str, *, cold: bool) -> Paint:
    begun_s = time.monotonic()
    page.goto(base + path, wait_until="commit")
    page.get_by_text(HEADER).first.wait_for()
    header_s = time.monotonic() - begun_s
    page.wait_for_function(f"document.querySelectorAll('{BUSY}').length === 0")
    whole_s = time.monotonic() - begun_s
    first_ms = page.evaluate(PAINTED)
    page.close()
    return Paint(path, cold, None if first_ms is None else first_ms / 1000, header_s, whole_s)


@contextmanager
def stays(opened: Browser, url: str) -> Iterator[Page]:
    """A page that stays open."""
    context = opened.new_context(viewport={"width": 1600, "height": 1000})
    page = context.new_page()
    page.goto(url)
    page.get_by_text(HEADER).first.wait_for(timeout=WAIT_MS)
    try:
        yield page
    finally:
        context.close()


def heap_mb(page: Page) -> float:
    """JavaScript's heap in use once rubbish is collected, MiB."""
    session = page.context.new_cdp_session(page)
    session.send("HeapProfiler.collectGarbage")
    session.send("Performance.enable")
    told = session.send("Performance.getMetrics")["metrics"]
    session.detach()
    return float(next(one["value"] for one in told if one["name"] == "JSHeapUsedSize")) / 2**20
