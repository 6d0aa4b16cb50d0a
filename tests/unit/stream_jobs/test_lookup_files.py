"""Lookups by the page of the process that writes them: the newest version, or an error, never nothing."""

from __future__ import annotations

import os
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from infra.clients.health import HealthServer, Listen
from infra.contract.errors import ConfigError, ServiceError
from infra.settings.settings import Settings
from stream_jobs.frames import lookup_files
from stream_jobs.frames.lookup_files import Copies, place_of, served


def page_of(folder: Path) -> HealthServer:
    return HealthServer(Listen(), {}, CollectorRegistry(), lookups=folder)


def test_a_worker_has_the_newest_version_and_what_it_has_stays_while_the_page_is_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lookup_files, "CHECK_S", 0.0)
    there, here = tmp_path / "lookups", tmp_path / "worker"
    for folder in (there, here):
        folder.mkdir()
    (there / "vehicle.arrow").write_bytes(b"first")
    before_ns = (there / "vehicle.arrow").stat().st_mtime_ns
    (there / ".vehicle.arrow.17").write_bytes(b"half of it")
    (there / "fleets.json").write_bytes(b"{}")  # whose vehicles are whose is no worker's business
    with page_of(there) as page:
        copies = Copies(f"http://127.0.0.1:{page.port}/lookups", here)
        assert copies.file("vehicle.arrow").read_bytes() == b"first"
        assert not copies.file("roads.npz").exists(), "it is not written yet, and the page says so"
        (there / "vehicle.arrow").write_bytes(b"second")
        os.utime(there / "vehicle.arrow", ns=(before_ns + 1, before_ns + 1))
        assert copies.file("vehicle.arrow").read_bytes() == b"second"
    assert copies.file("vehicle.arrow").read_bytes() == b"second"
    assert [path.name for path in here.iterdir()] == ["vehicle.arrow"]


def test_a_page_that_gives_nothing_is_an_error(tmp_path: Path) -> None:
    with page_of(tmp_path) as page:
        port = page.port
        with pytest.raises(ServiceError, match="gives no lookups"):
            Copies(f"http://127.0.0.1:{port}/other", tmp_path).file("vehicle.arrow")
    with pytest.raises(ServiceError, match="is `odograph maintenance` running there"):
        Copies(f"http://127.0.0.1:{port}/lookups", tmp_path).file("vehicle.arrow")


class Killed(BaseHTTPRequestHandler):
    """A page whose process ends in the midst of its answer."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "100")
        self.end_headers()
        self.wfile.write(b"{")

    def log_message(self, *_: object) -> None:
        pass


def test_an_answer_that_is_cut_short_is_as_none(tmp_path: Path) -> None:
    with HTTPServer(("127.0.0.1", 0), Killed) as page:
        threading.Thread(target=page.handle_request).start()
        with pytest.raises(ServiceError, match="gives no lookups"):
            Copies(f"http://127.0.0.1:{page.server_port}/lookups", tmp_path).file("vehicle.arrow")


def test_lookups_lie_in_a_folder_or_on_a_page_which_serves_them_then_only(tmp_path: Path) -> None:
    def settings(place: str, workers: int = 0) -> Settings:
        given: Any = {"paths": {"home": str(tmp_path), "lookups": place}, "cluster": {"workers": workers}}
        return Settings(**given)

    assert served(settings("")) is None
    assert served(settings(str(tmp_path / "there"))) is None
    own = tmp_path / "lookups"
    assert served(settings("http://host:81/lookups")) == served(settings("", workers=3)) == own
    assert place_of(settings("")) == tmp_path / "lookups"
    assert place_of(settings("http://host:81/lookups")) == "http://host:81/lookups"
    with pytest.raises(ConfigError, match="the page of `odograph maintenance`"):
        place_of(settings("hdfs://host:82/lookups"))
