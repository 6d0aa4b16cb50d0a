"""A part that answers with nonsense is one part of many."""

from __future__ import annotations

from typing import Any

import pytest

from infra.settings.settings import Endpoints, load
from infra.stack.watch import process
from infra.stack.watch.samples import NOTHING


@pytest.mark.parametrize("said", ["<html>It works!</html>", "{}"])
def test_another_program_on_the_port_of_a_part_is_that_parts_trouble(
    said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    log_ends: Any = None
    found = Endpoints("", 0, "", "", "", "", {"jobs": 1})
    watch = process.Watch(load(), found, lambda: None, log_ends)
    monkeypatch.setattr(process, "readyz", lambda _: None)
    monkeypatch.setattr(process, "metrics", lambda _: said)
    _, trouble, figures = watch._asked("jobs")
    assert (str(trouble).partition(":")[0], figures) == ("no metrics of ours", NOTHING)
