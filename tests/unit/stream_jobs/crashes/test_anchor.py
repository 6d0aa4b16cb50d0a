"""What a time-stamp authority answers, and what of it is kept."""

from __future__ import annotations

import io
import urllib.request
from http.client import BadStatusLine
from pathlib import Path

import pytest

from infra.contract.errors import ServiceError
from infra.settings.settings import Settings
from stream_jobs.crashes import anchor


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"0\x05\x30\x03\x02\x01\x02", "openssl ts -verify"),
        (BadStatusLine("no HTTP"), "time-stamp authority"),
    ],
)
def test_an_answer_that_is_no_time_stamp_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: bytes | Exception, why: str
) -> None:
    def urlopen(*_: object, **__: object) -> io.BytesIO:
        if isinstance(answer, Exception):
            raise answer
        return io.BytesIO(answer)

    monkeypatch.setattr(urllib.request, "urlopen", urlopen)
    head, authority = tmp_path / "000000000001.json", tmp_path / "ca.pem"
    head.write_text("{}")
    authority.write_text("")
    own = Settings(paths={"home": tmp_path}, crash={"tsa_url": "http://tsa", "tsa_ca_file": authority})  # type: ignore[arg-type]
    with pytest.raises(ServiceError, match=why):
        anchor._stamp(own, head)
    assert {path.name for path in tmp_path.iterdir()} == {head.name, authority.name}
