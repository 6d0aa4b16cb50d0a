"""What a program finds in its home: its own secrets and settings, by paths that lead there."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from bridge.downlink import webhooks
from infra.contract import policy
from infra.contract.errors import ConfigError
from infra.settings.files import write_private
from infra.settings.settings import Endpoints, Settings, external, load
from infra.stack.access import identity, users
from infra.stack.access.identity import ensure_keys
from infra.stack.downloads import rootfs

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
    page, own = f"{services}/dashboard.pem", {who: f"postgresql://own-{who}@h/x" for who in OURS}
    return Endpoints("h", 1, kafka, owner, ingest, reads, {}, acts, own, files, dashboard_tls=page)


@pytest.mark.parametrize("who", OURS)
def test_addresses_are_those_that_the_policy_gives_and_lead_to_files_of_the_programs_home(
    home: Path, who: str
) -> None:
    files = users.files_of(home, load(paths={"home": str(home)}), embedded(home), who)
    told, own = json.loads(files["endpoints.json"]), home / "programs" / who
    held = {name for name, programs in policy.SECRETS.items() if who in programs and name in told}
    assert {name for name in policy.SECRETS if told.get(name)} == held
    assert f"{home}/ca" not in files["endpoints.json"]
    logins = {name for name in OURS if f"own-{name}@" in "".join(files.values())}
    assert logins == ({who} if "db_ingest_url" in held else set())
    keys = [name for name in ("downlink.key", "evidence.key", "pseudonym.key") if name in files]
    assert [files[name] for name in keys] == [(home / name).read_text() for name in keys]
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
        ("maintenance", {"ingest:i"}),
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


@pytest.mark.parametrize("who", [policy.COPIER, *OURS])
def test_the_mirror_alone_has_the_other_regions_certificate(home: Path, who: str) -> None:
    files = {"other_ca_file": "rules.yaml", "other_cert_file": "mine.key"}
    settings = load(paths={"home": str(home)}, region={"name": "A", "other": "B=b:1"} | files)
    write_private(home / "ca" / "services" / f"{who}.pem", f"certificate of {who}")
    made, own = users.files_of(home, settings, embedded(home), who), home / "programs" / who
    named = {"other_ca_file": f"{own}/region.ca.pem", "other_cert_file": f"{own}/region.pem"}
    told = tomllib.loads(made["settings.toml"])["region"]
    assert told == {"name": "A", "other": "B=b:1"} | (named if who == policy.COPIER else {})
    assert ("text of mine.key" in "".join(made.values())) is (who == policy.COPIER)


def test_of_two_regions_kafka_lets_the_mirror_write_copies_and_notes_and_of_one_nothing() -> None:
    def of_mirror(other: str) -> set[tuple[str, str, bool]]:
        acls = policy.kafka_acls("x.", "bridge", other)
        return {(acl.operation, acl.name, acl.prefixed) for acl in acls if acl.principal == policy.COPIER}

    assert of_mirror("") == set()
    assert of_mirror("B") > {("write", "x.crash", False), ("create", "mm2-", True), ("read", "B-mm2", False)}
    assert "x.policy" not in {name for _, name, _ in of_mirror("B")}


def test_settings_are_to_a_program_what_they_are_to_root(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = load(
        paths={"home": str(home), "lookups": "shared", "checkpoints": "hdfs://h:1/x"},
        journeys={"brake_g": (0.5, 0.4, 0.3)}, cohort={"load_edges_pct": (10.0, 90.0)},
    )  # fmt: skip
    files, own = users.files_of(home, given, embedded(home), "jobs"), home / "programs" / "jobs"
    own.mkdir(parents=True)
    (own / "settings.toml").write_text(files["settings.toml"])
    monkeypatch.chdir(own)
    found = load(paths={"home": str(own)})
    assert (found.journeys, found.cohort) == (given.journeys, given.cohort)
    assert (found.paths.lookups, found.paths.checkpoints) == (f"{home.parent}/shared", "hdfs://h:1/x")


def test_a_webhooks_secret_comes_along_and_a_file_that_is_not_there_is_named(home: Path) -> None:
    hooks, deep = home.parent / "hooks.toml", home.parent / "deep.secret"
    one = "[[webhook]]\nname = {0!r}\nurl = 'http://h/'\nsecret_file = {1}\n"
    gone = "# " + one.format("c", "'gone.secret'").replace("\n", "\n# ")
    hooks.write_text(one.format("a", '"mine.key"') + one.format("b", f"'{deep}'") + gone)
    settings = load(paths={"home": str(home)}, downlink={"webhooks": str(hooks)})
    with pytest.raises(ConfigError, match=r"downlink.webhooks .*hooks.toml: secret_file .*deep.secret"):
        users.files_of(home, settings, embedded(home), "downlink")
    write_private(deep, "sixteen bytes at least\n")
    files, own = users.files_of(home, settings, embedded(home), "downlink"), home / "programs" / "downlink"
    for name, text in files.items():
        write_private(own / name, text)
    assert [(h.name, h.secret) for h in webhooks.load(own / "webhooks.toml")] == [
        ("a", b"text of mine.key"), ("b", b"sixteen bytes at least"),
    ]  # fmt: skip
    assert not [n for n in users.files_of(home, settings, embedded(home), "events") if "webhook" in n]


@pytest.mark.parametrize(
    ("who", "section", "key"), [("dashboard", "dashboard", "oidc"), ("downlink", "downlink", "webhooks")]
)
def test_a_named_file_that_is_not_there_is_no_setting_that_is_not_made(
    home: Path, who: str, section: str, key: str
) -> None:
    settings = load(paths={"home": str(home)}, **{section: {key: str(home / "none.toml")}})
    with pytest.raises(ConfigError, match=rf"{f'odograph_{section}_{key}'.upper()} .*none\.toml"):
        users.files_of(home, settings, embedded(home), who)


def test_what_a_program_may_have_no_more_is_taken_from_its_home(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rootfs, "ids", lambda _: (61_001, 61_001))
    own = home / "programs" / "dashboard"
    settings = load(paths={"home": str(home)}, dashboard={"oidc": str(home.parent / "mine.key")})
    users.furnish(home, settings, embedded(home), "dashboard")
    assert (own / "oidc.toml").read_text() == "text of mine.key"
    users.furnish(home, load(paths={"home": str(home)}), embedded(home), "dashboard")
    assert not (own / "oidc.toml").exists()
    left = {"settings.toml", "endpoints.json", "evidence.key", "pseudonym.key"}
    assert left <= {path.name for path in own.iterdir()}
    assert (own / "tmp").is_dir()
    assert (own / "lookups").is_symlink()
