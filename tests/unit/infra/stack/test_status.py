"""What status and doctor tell people: every word of it, whatever signs it holds."""

from __future__ import annotations

from pathlib import Path

from infra.settings.settings import load
from infra.stack import doctor
from infra.stack.doctor import Finding
from infra.stack.stack import Stack
from infra.stack.status import Part, report

WORDS = "[auth] and [roles] of [/data/x] are wanted"


def test_troubles_findings_and_next_steps_are_shown_as_they_are(tmp_path: Path) -> None:
    stack = Stack(load(paths={"home": str(tmp_path)}), print)
    shown = report(
        stack, [Part("jobs", "process", "silent", "h:1", up_s=3723.9, trouble=WORDS)], as_json=False
    )
    assert f"jobs: {WORDS}\n" in shown
    assert " 1:02:03 " in shown
    found = doctor.report([Finding("jobs", False, WORDS, f"mend {WORDS}")], as_json=False)
    assert (WORDS in found, f"-> mend {WORDS}" in found) == (True, True)
