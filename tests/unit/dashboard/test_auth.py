"""Who may do what, and the file that says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from dashboard import auth
from dashboard.auth import LOCAL, Reader, load_roles
from dashboard.query_cache import VehicleScope
from infra.contract.errors import ConfigError
from infra.settings.settings import load

AUTH = f"""[auth]
redirect_uri = "https://fleet.example.org/oauth2callback"
cookie_secret = "{"x" * 32}"
client_id = "odograph"
client_secret = "s"
server_metadata_url = "https://id.example.org/.well-known/openid-configuration"
"""
ROLES = """[roles]
viewer = ["*"]
dispatcher = ["ada@example.org"]
admin = ["root@example.org"]
"""


def written(folder: Path, text: str, mode: int = 0o600) -> Path:
    file = folder / "oidc.toml"
    file.touch(mode)
    file.write_text(text)
    return file


def identity(email: str, verified: object = True) -> dict[str, object]:
    return {"sub": "1", "email": email, "email_verified": verified}


def test_the_highest_role_that_names_a_person_is_theirs(tmp_path: Path) -> None:
    roles = load_roles(written(tmp_path, AUTH + ROLES))
    found = {who: roles.reader(identity(who)) for who in ("root@example.org", "ada@example.org", "a@b.c")}
    assert {who: reader and reader.role for who, reader in found.items()} == {
        "root@example.org": "admin",
        "ada@example.org": "dispatcher",
        "a@b.c": "viewer",
    }


@pytest.mark.parametrize("verified", [False, None, "true", 1])
def test_an_address_that_the_provider_did_not_verify_is_nobodys(tmp_path: Path, verified: object) -> None:
    roles = load_roles(written(tmp_path, AUTH + ROLES))
    assert roles.reader(identity("root@example.org", verified)) is None
    assert roles.reader({"sub": "1"}) is None


def test_another_claim_can_be_the_name(tmp_path: Path) -> None:
    roles = load_roles(written(tmp_path, AUTH + '[roles]\nclaim = "sub"\nadmin = ["1"]'))
    assert roles.reader(identity("a@b.c", verified=False)) == Reader("1", "admin", local=False)
    assert roles.reader({"sub": "2"}) is None


def test_who_signs_in_sees_their_fleets_an_operator_all_and_a_driver_what_is_lent(tmp_path: Path) -> None:
    lines = '[roles]\nviewer = ["*"]\ndriver = ["dan@d.e"]\nfleet_claim = "fleets"\noperator = ["op@d.e"]'
    roles = load_roles(written(tmp_path, AUTH + lines))

    def scope(email: str, fleets: object) -> VehicleScope | None:
        found = roles.reader({**identity(email), "fleets": fleets})
        assert found is not None
        return found.scope

    assert scope("a@b.c", ["south", "north"]) == VehicleScope(("north", "south"))
    assert scope("a@b.c", "north") == VehicleScope(("north",))
    for none in (None, [], [3, None, ""], {"north": 1}):
        assert scope("a@b.c", none) == VehicleScope()
    assert scope("op@d.e", ["north"]) is None
    assert scope("dan@d.e", ["north"]) == VehicleScope(driver="dan@d.e")  # though everybody is a viewer
    without = load_roles(written(tmp_path, AUTH + ROLES)).reader(identity("a@b.c"))
    assert without is not None
    assert without.scope is None


def test_fleets_that_the_file_gives_stand_in_place_of_the_claims(tmp_path: Path) -> None:
    lines = f'{ROLES}\nfleet_claim = "fleets"\n[fleets]\n"a@b.c" = ["south"]\n"v@b.c" = []'
    roles = load_roles(written(tmp_path, AUTH + lines))
    given = [roles.reader({**identity(name), "fleets": "north"}) for name in ("a@b.c", "v@b.c", "d@b.c")]
    assert [one and one.scope for one in given] == [
        VehicleScope(("south",)), VehicleScope(), VehicleScope(("north",)),
    ]  # fmt: skip


def test_each_role_may_what_the_one_below_it_may_and_more() -> None:
    allowed = {
        role: [d for d in ("alerts", "evidence") if Reader("x", role, False).may(d)] for role in ROLES_UP
    }
    assert allowed == {"viewer": [], "dispatcher": ["alerts"], "admin": ["alerts", "evidence"]}
    assert LOCAL.may("alerts")
    assert LOCAL.may("evidence")


ROLES_UP = ("viewer", "dispatcher", "admin")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[auth", "oidc.toml"),
        (ROLES, "tables"),
        (AUTH.replace("client_id", "client") + ROLES, "lacks client_id"),
        (AUTH.replace("x" * 32, "short") + ROLES, "cookie_secret is shorter than 32"),
        (AUTH + "[roles]\nadmins = []", "admins"),
        (AUTH + '[roles]\nadmin = "root"', "admin"),
        (AUTH + "[roles]\nadmin = []", "names nobody"),
        (AUTH + ROLES + '\n[fleets]\n"a@b.c" = "south"', "a@b.c"),
    ],
)
def test_a_wrong_file_is_refused_and_the_place_named(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words.replace("[", r"\[")):
        load_roles(written(tmp_path, text))


def test_a_page_is_over_while_the_file_cannot_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = load(dashboard={"oidc": written(tmp_path, AUTH + ROLES, 0o644)})
    monkeypatch.setattr(auth, "settings", lambda: chosen)
    assert auth.ended()


def test_a_file_that_others_may_read_is_refused(tmp_path: Path) -> None:
    file = written(tmp_path, AUTH + ROLES)
    file.chmod(0o644)
    with pytest.raises(ConfigError, match="others may read it"):
        load_roles(file)
