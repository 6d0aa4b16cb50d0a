"""What a program finds in its home: its own secrets and settings, by paths that lead there."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from infra.contract import policy
from infra.settings.settings import Endpoints, Settings, external, load
from infra.stack import identity, users
from infra.stack.postgres import write_private
from infra.stack.stack import ensure_keys

OURS = [name for name in policy.PROGRAMS if name != policy.OPERATOR]


@pytest.fixture(name="home")
def furnished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("mine.key", "cert.pem", "mqtt.key", "hooks.toml", "rules.yaml"):
        write_private(tmp_path / name, f"text of {name}")
    home = tmp_path / "home"
    ensure_keys(load(paths={"home": str(home)}))
    services = identity.Authority(home, identity.SERVICES)
    for who in OURS:
        write_private(services.folder / f"{who}.pem", f"certificate of {who}")
    return home


def in_force(home: Path) -> Settings:
    return load(
        paths={"home": str(home)}, secure=True, jobs={"rules": "rules.yaml", "lateness_s": 7},
        downlink={"webhooks": "hooks.toml"}, crash={"pseudonym_key_file": "mine.key"},
        mqtt={"url": "mqtts://me:word@broker", "cert_file": "cert.pem", "key_file": "mqtt.key"},
        db={"url": "postgresql://owner:o@db/x", "ingest_url": "postgresql://ingest:i@db/x"},
    )  # fmt: skip


def embedded(home: Path) -> Endpoints:
    services = home / "ca" / "services"
    files = {"tls": True, "cert_file": f"{services}/{{who}}.pem", "key_file": f"{services}/{{who}}.pem"}
    ca = f"{services}/ca.pem"
    owner, ingest, reads, acts = (f"postgresql://{role}@h/x?sslrootcert={ca}" for role in "oida")
    kafka = f"h:2?ca={ca}&cert={services}/{{who}}.pem"
    page = f"{services}/dashboard.pem"
    return Endpoints("h", 1, kafka, owner, ingest, reads, {}, acts, files, dashboard_tls=page)


@pytest.mark.parametrize("who", OURS)
def test_addresses_are_those_that_the_policy_gives_and_lead_to_files_of_the_programs_home(
    home: Path, who: str
) -> None:
    files = users.files_of(home, load(paths={"home": str(home)}), embedded(home), who)
    told, own = json.loads(files["endpoints.json"]), home / "programs" / who
    held = {name for name, programs in policy.SECRETS.items() if who in programs and name in told}
    assert {name for name in policy.SECRETS if told.get(name)} == held
    assert f"{home}/ca" not in files["endpoints.json"]
    assert told["dashboard_tls"] == f"{own}/ca/services/dashboard.pem"
    assert [name for name in files if name.endswith(".pem") and "services" in name] == [
        "ca/services/ca.pem", f"ca/services/{who}.pem",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("who", "secrets"),
    [
        ("bridge", {"word", "text of mqtt.key"}),
        ("downlink", {"word", "text of mqtt.key", "text of hooks.toml", "ingest:i"}),
        ("dashboard", {"text of mine.key"}),
        ("events", {"ingest:i"}),
        ("maintenance", {"ingest:i", "owner:o"}),
    ],
)
def test_secrets_of_the_settings_are_with_who_needs_them_only(
    home: Path, who: str, secrets: set[str]
) -> None:
    settings = in_force(home)
    files = users.files_of(home, settings, external(settings), who)
    every = ("word", "text of mqtt.key", "text of hooks.toml", "text of mine.key", "ingest:i", "owner:o")
    assert {text for text in every if text in "".join(files.values())} == secrets
    made = tomllib.loads(files["settings.toml"])
    assert (made["secure"], made["jobs"]["lateness_s"]) == (True, 7)
    assert made["jobs"]["rules"] == str(home.parent / "rules.yaml")
    own = home / "programs" / who
    named = {"webhooks": f"{own}/webhooks.toml", "key_file": f"{own}/downlink.key"}
    assert made.get("downlink", {}) == (named if who == "downlink" else {})
    assert ("mqtt" in made, "db" in made) == (False, False)
