"""By which rights data leave, and what names none; the pseudonyms of vehicles that must not be named."""

from __future__ import annotations

from pathlib import Path

import pytest

from infra.contract.errors import ConfigError
from infra.contract.legal_basis import BASES, legal_basis
from infra.settings.files import write_private
from infra.settings.settings import load
from infra.stack.access.identity import PSEUDONYM_KEY_FILE, pseudonym

VIN = "1HGCM82633A004352"


def test_each_kind_is_taken_with_what_proves_it() -> None:
    found = [legal_basis(f" {kind}:  file 7: page 2 ") for kind in BASES]
    assert [str(one) for one in found] == [f"{kind}: file 7: page 2" for kind in BASES]
    assert [one.kind for one in found if not one.names_vehicle] == ["investigation", "research"]


@pytest.mark.parametrize(
    "text", ["", "consent", "consent:", "consent: ", "insurance: policy 7", "Consent: form 7",
             "court-order: a\nb", f"consent: {'x' * 201}", "consent: \x1b[2J"],
)  # fmt: skip
def test_what_names_no_right_is_refused_with_those_that_there_are(text: str) -> None:
    with pytest.raises(ConfigError, match="a legal basis is wanted") as refused:
        legal_basis(text)
    assert [kind for kind in BASES if f"  {kind} " not in str(refused.value)] == []


def test_a_pseudonym_needs_the_key_and_another_key_gives_another_one(tmp_path: Path) -> None:
    settings = load(paths={"home": tmp_path})
    with pytest.raises(ConfigError, match="ODOGRAPH_CRASH_PSEUDONYM_KEY_FILE"):
        pseudonym(settings, VIN)
    made = []
    for key in ("a" * 32, "b" * 32, "a" * 32):
        write_private(tmp_path / PSEUDONYM_KEY_FILE, key)
        made.append(pseudonym(settings, VIN))
    assert (made[0] == made[2], len(set(made)), VIN in made[0]) == (True, 2, False)
    (tmp_path / PSEUDONYM_KEY_FILE).chmod(0o644)
    with pytest.raises(ConfigError, match="others may read it"):
        pseudonym(settings, VIN)
    write_private(tmp_path / PSEUDONYM_KEY_FILE, "short")
    with pytest.raises(ConfigError, match="32 characters at least"):
        pseudonym(settings, VIN)
