"""What a basemap is found to be, and the sentence about one that cannot be used."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from infra.clients.basemap import Basemap, find
from tests.support_tiles import write_tiles

NO_FILE = "no PMTiles file of version 3, nor the http(s):// address of a style"
MADE = {
    "/style.json": {
        "version": 8,
        "sources": {"a": {"type": "vector", "url": ""}, "c": None, "b": {"attribution": "© B"}},
        "layers": [],
    },
    "/tiles.json": {"attribution": '<a href="https://example.org">&copy; A</a>'},
    "/old.json": {"version": 7, "sources": {}, "layers": []},
    "/list.json": [1],
}


class Styles(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        body = json.dumps(MADE[path]) if path in MADE else "<html>"
        self.send_response(200 if path in MADE or path == "/page.html" else 404)
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_: object) -> None:
        return


@pytest.fixture(scope="module")
def base() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Styles) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}"
        MADE["/style.json"]["sources"]["a"]["url"] = f"{address}/tiles.json"  # type: ignore[index]
        yield address
        server.shutdown()


@pytest.fixture
def town(tmp_path: Path) -> Path:
    path = tmp_path / "town.pmtiles"
    write_tiles(path, {"water": (8.0, 48.0, 8.1, 48.1), "roads": (8.0, 48.0, 8.2, 48.2)}, 9, "© C")
    return path


def test_without_a_setting_there_is_none_and_nothing_is_wrong() -> None:
    assert find("") == Basemap()


def test_a_style_is_used_under_its_address_with_the_attributions_of_its_sources(base: str) -> None:
    assert find(f"{base}/style.json?key=k") == Basemap(
        style_url=f"{base}/style.json?key=k", attribution="© A · © B"
    )


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("/gone.json", "answered 404"),
        ("/page.html", "is no JSON (Expecting value: line 1 column 1 (char 0))"),
        ("/old.json", "no MapLibre style (a JSON object with version 8, sources and layers)"),
        ("/list.json", "no MapLibre style (a JSON object with version 8, sources and layers)"),
    ],
)
def test_what_is_no_style_is_said_without_the_key_in_its_address(base: str, path: str, reason: str) -> None:
    problem = find(f"{base}{path}?key=secret").problem
    assert problem.startswith(f"ODOGRAPH_DASHBOARD_BASEMAP {base}{path}: ")
    assert problem.endswith(f"{reason}. Maps show coast lines and borders instead")
    assert "secret" not in problem


def test_a_style_that_nobody_serves_cannot_be_reached() -> None:
    problem = find("http://127.0.0.1:9/style.json").problem
    assert "http://127.0.0.1:9/style.json cannot be reached (" in problem


def test_a_file_is_known_with_its_zooms_layers_and_attribution(town: Path) -> None:
    found = find(str(town))
    assert (found.problem, found.attribution) == ("", "© C")
    assert found.tiles is not None
    assert (found.tiles.zooms, found.tiles.layers) == ((0, 9), ("water", "roads"))
    assert found.tiles.headers["Content-Encoding"] == "gzip"
    assert found.tiles.get(9, 267, 177) is not None
    assert found.tiles.get(9, 0, 0) is None


@pytest.mark.parametrize(
    ("body", "reason"),
    [(b"lat,lon\n48.0,8.0\n" * 20, NO_FILE), (b"", NO_FILE), (b"PMTiles\x02" + bytes(600), NO_FILE)],
)
def test_a_file_that_is_no_pmtiles_is_said(tmp_path: Path, body: bytes, reason: str) -> None:
    path = tmp_path / "map.pmtiles"
    path.write_bytes(body)
    wanted = f"ODOGRAPH_DASHBOARD_BASEMAP {path}: {reason}. Maps show coast lines and borders instead"
    assert find(str(path)).problem == wanted


def test_a_file_that_is_cut_off_or_away_is_said(town: Path) -> None:
    before, whole = find(str(town)).tiles, town.read_bytes()
    town.write_bytes(whole[:200])
    assert before is not None
    assert before.get(9, 267, 177) is None
    assert "no whole PMTiles file (" in find(str(town)).problem
    town.unlink()
    assert "cannot be read (No such file or directory)" in find(str(town)).problem


def test_tiles_packed_in_a_way_that_no_browser_takes_are_said(town: Path) -> None:
    whole = bytearray(town.read_bytes())
    whole[98] = 4  # the header's byte of the tiles' compression: Zstandard
    town.write_bytes(whole)
    assert "tiles without packing or by gzip are wanted, not ZSTD" in find(str(town)).problem
