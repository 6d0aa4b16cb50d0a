"""Pictures of the pages of a running dashboard, whole pages in pieces, wide and phone, light and dark.

Run: python -m load_tests.dashboard_pictures --into DIR [--size wide|phone] [--theme light|dark] PATH ...

PATH is a page's address below the dashboard, as ``/alerts?alert=7``; ``name=PATH`` names the files. A page
longer than the window becomes several files. Exit 1 where the browser complained or asked another machine.
"""

from __future__ import annotations

import argparse
import io
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from PIL import Image
from playwright.sync_api import ConsoleMessage, Page, expect

from infra.settings.settings import endpoints, load
from load_tests.dashboard.paint import browser

SIZES: Final = {"wide": (1600, 1000), "phone": (390, 844)}
PHONE: Final = "Mozilla/5.0 (Linux; Android 14) AppleWebKit/537.36 (KHTML, like Gecko) Mobile"
MAIN: Final = "[data-testid=stMain]"
COLOURS: Final = 256
PROBE: Final = "/_stcore/"
"""Asked for below a page opened by its own address first: 404 is the right answer there."""
OVERLAP_PX: Final = 40


def main(wanted: argparse.Namespace) -> int:
    """Draw them all; what was wrong goes to standard error."""
    base = wanted.base or f"http://127.0.0.1:{endpoints(load()).http_ports['dashboard']}"
    wanted.into.mkdir(parents=True, exist_ok=True)
    wide, high = SIZES[wanted.size]
    wrong: list[str] = []
    with browser() as opened:
        expect.set_options(timeout=1000 * wanted.wait)
        phone = wanted.size == "phone"
        context = opened.new_context(
            viewport={"width": wide, "height": wanted.height or high},
            color_scheme=wanted.theme,
            user_agent=PHONE if phone else None,
            has_touch=phone,
        )
        context.set_default_timeout(1000 * wanted.wait)
        for asked in wanted.paths:
            page = context.new_page()
            listen(page, base, wrong)
            draw(page, base, asked, wanted)
            page.close()
    sys.stderr.writelines(f"{line}\n" for line in wrong)
    return 1 if wrong else 0


def listen(page: Page, base: str, wrong: list[str]) -> None:
    """Note what the page complains of, and what it asks of others than its server."""
    near = (base, base.replace("http://", "ws://"), "data:", "blob:")

    def asked(url: str) -> None:
        if not url.startswith(near):
            wrong.append(f"asked {url}")

    def said(message: ConsoleMessage) -> None:
        place = message.location["url"]
        if message.type == "error" and PROBE not in place:
            wrong.append(f"{message.text} {place}")

    page.on("request", lambda request: asked(request.url))
    page.on("websocket", lambda socket: asked(socket.url))
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("console", said)


def draw(page: Page, base: str, asked: str, wanted: argparse.Namespace) -> None:
    """One page: waited for, then taken piece by piece."""
    name, path = asked.split("=", 1) if not asked.startswith("/") else (name_of(asked), asked)
    page.goto(base + path, wait_until="domcontentloaded")
    expect(page.get_by_text("Data as of")).to_be_visible()
    for words in wanted.click or ():
        page.get_by_text(words, exact=True).first.click()
    settle(page, wanted.settle)
    for place, piece in enumerate(pieces(page, wanted.settle), 1):
        file = wanted.into / f"{name}-{wanted.size}-{wanted.theme}-{place}.png"
        picture = Image.open(io.BytesIO(piece)).convert("RGB")
        picture = picture.quantize(COLOURS, Image.Quantize.MEDIANCUT, kmeans=1, dither=Image.Dither.NONE)
        picture.save(file, optimize=True)
        sys.stdout.write(f"{file} {file.stat().st_size // 1000} kB\n")
        sys.stdout.flush()
        if place == wanted.most:
            break


def name_of(path: str) -> str:
    """A word for a file, from an address."""
    parts = urlsplit(path)
    words = "-".join(word for word in (parts.path.strip("/") or "fleet", parts.query) if word)
    return "".join(c if c.isalnum() else "-" for c in words)[:60]


def settle(page: Page, seconds: float) -> None:
    """Until nothing is being drawn any more, then for a while: maps come after the page."""
    expect(page.get_by_test_id("stSkeleton")).to_have_count(0)
    page.wait_for_timeout(seconds * 1000)


def pieces(page: Page, seconds: float) -> Iterator[bytes]:
    """The page from top to end, a window at a time."""
    top = 0
    while True:
        page.evaluate("([at, y]) => document.querySelector(at)?.scrollTo(0, y)", [MAIN, top])
        if top:
            page.wait_for_timeout(seconds * 300)
        yield page.screenshot()
        seen, whole = page.evaluate(
            "at => { const m = document.querySelector(at); return [m.clientHeight, m.scrollHeight] }", MAIN
        )
        if top + seen >= whole:
            return
        top += seen - OVERLAP_PX


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("paths", nargs="+", metavar="PATH")
    parser.add_argument("--into", type=Path, required=True, help="folder of the pictures")
    parser.add_argument("--base", help="the dashboard's address; default: this home's")
    parser.add_argument("--size", choices=SIZES, default="wide")
    parser.add_argument("--height", type=int, help="of the window, px")
    parser.add_argument("--theme", choices=("light", "dark"), default="light")
    parser.add_argument("--settle", type=float, default=4.0, help="wait so long for maps, s")
    parser.add_argument("--wait", type=float, default=120.0, help="at most so long for a page, s")
    parser.add_argument("--most", type=int, default=12, help="pieces of a page")
    parser.add_argument("--click", action="append", help="click what bears these words first")
    began_s = time.monotonic()
    code = main(parser.parse_args())
    sys.stderr.write(f"{time.monotonic() - began_s:.0f} s\n")
    sys.exit(code)
