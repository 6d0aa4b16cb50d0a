"""Settings: where a value comes from, what is refused, what is masked."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from infra.clients import database_url, kafka
from infra.clients.health import Listen
from infra.clients.locks import locked
from infra.clients.mqtt_broker import MqttBroker
from infra.contract.errors import ConfigError, ServiceError
from infra.settings import settings
from infra.settings.files import read_secret
from infra.settings.sections import Retention
from infra.stack.access.identity import SERVICES, Authority


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_an_argument_wins_over_the_environment_and_that_over_the_file(
    empty_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (empty_folder / ".odograph.toml").write_text('[mqtt]\nport = 1\nroot = "file/v1"\n[kafka]\nport = 3\n')
    monkeypatch.setenv("ODOGRAPH_MQTT_PORT", "2")
    found = settings.load(kafka={"port": 4})
    assert (found.mqtt.port, found.mqtt.root, found.kafka.port) == (2, "file/v1", 4)


def test_what_the_home_itself_says_is_heard_last_and_shown_as_its_own(
    empty_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (empty_folder / "there").mkdir()
    text = '[kafka]\nbootstrap = "a:1"\n[mqtt]\nroot = "home/v1"\n[bridge]\nshards = 2\n'
    (empty_folder / "there" / "settings.toml").write_text(text)
    (empty_folder / ".odograph.toml").write_text('[paths]\nhome = "there"\n[mqtt]\nroot = "file/v1"\n')
    monkeypatch.setenv("ODOGRAPH_KAFKA_BOOTSTRAP", "b:1")
    found = settings.load()
    assert (found.kafka.bootstrap, found.mqtt.root, found.bridge.shards) == ("b:1", "file/v1", 2)
    shown = {row.variable: row.source for row in settings.settings_in_force(found)}
    assert shown["ODOGRAPH_BRIDGE_SHARDS"] == "settings.toml"
    assert shown["ODOGRAPH_MQTT_ROOT"] == ".odograph.toml"
    changed = found.changed({"kafka": {"bootstrap": "c:1"}})
    assert (changed.kafka.bootstrap, changed.bridge.shards) == ("c:1", 2)


def test_a_wrong_value_is_refused_by_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ODOGRAPH_KAFKA_HEAP_MB", "a lot")
    with pytest.raises(ConfigError, match="ODOGRAPH_KAFKA_HEAP_MB"):
        settings.load()


def test_an_unknown_variable_is_refused_and_the_near_one_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ODOGRAPH_KAFKAS_PORT", "9092")
    with pytest.raises(ConfigError, match=r"ODOGRAPH_KAFKAS_PORT: .* did you mean ODOGRAPH_KAFKA_PORT\?"):
        settings.load()


@pytest.mark.parametrize(("old", "new"), settings.RENAMED.items())
def test_a_renamed_setting_names_the_new_one_in_the_environment_and_in_the_file(
    old: str, new: str, empty_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert new in settings.known_variables()
    monkeypatch.setenv(old, "5")
    with pytest.raises(ConfigError, match=f"wrong setting: {old}: was renamed to {new}. "):
        settings.load()
    monkeypatch.delenv(old)
    section, _, key = old.lower().removeprefix("odograph_").partition("_")
    (empty_folder / ".odograph.toml").write_text(f"[{section}]\n{key} = 5\n")
    with pytest.raises(ConfigError, match=f"wrong setting: {old}: was renamed to {new}. "):
        settings.load()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('[mqtt]\nprot = 1883\n', "ODOGRAPH_MQTT_PROT: there is no such setting; did you mean"),
        ('[mqqt]\nport = 1883\n', "ODOGRAPH_MQQT: there is no such setting"),
        ('[mqtt\n', r"^\.odograph\.toml: "),
        ('paths = "x"\n', "wrong setting: ODOGRAPH_PATHS: keys with values are wanted"),
        ('[paths]\nhome = 5\n', "wrong setting: ODOGRAPH_PATHS_HOME: "),
    ],
)  # fmt: skip
def test_what_the_file_says_and_nothing_reads_is_refused(empty_folder: Path, text: str, told: str) -> None:
    (empty_folder / ".odograph.toml").write_text(text)
    with pytest.raises(ConfigError, match=told):
        settings.load()


def test_a_broken_file_of_the_home_is_named(empty_folder: Path) -> None:
    (empty_folder / "there").mkdir()
    (empty_folder / "there" / "settings.toml").write_text("[kafka\n")
    with pytest.raises(ConfigError, match=r"^there/settings\.toml: "):
        settings.load(paths={"home": "there"})


@pytest.mark.parametrize(
    ("variable", "value", "told"),
    [
        ("PATHS", "/tmp", "there is no such setting; did you mean ODOGRAPH_PATHS_"),
        ("KAFKA", "h:9092", "there is no such setting; did you mean ODOGRAPH_KAFKA_"),
        ("LEASE", "x", "there is no such setting; did you mean ODOGRAPH_LEASE_"),
        ("COHORT_LOAD_EDGES_PCT", "20,40,60", r"a list is wanted, as \[1, 2\]"),
        ("PATHS_HOME", "", "a folder is wanted"),
        ("JOBS_CLOCK_FLOOR", "never", ".* a valid date"),
        ("LEASE_TTL_S", "nan", "a finite number is wanted"),
        ("BRIDGE_DRAIN_S", "inf", "a finite number is wanted"),
    ],
)
def test_what_no_setting_can_be_in_the_environment_is_refused_by_its_variable(
    variable: str, value: str, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"ODOGRAPH_{variable}", value)
    with pytest.raises(ConfigError, match=f"wrong setting: ODOGRAPH_{variable}: {told}"):
        settings.load()


@pytest.mark.parametrize(
    ("section", "values", "told"),
    [
        ("mqtt", {"url": "mqtt:/me:s3cret@h"}, "ODOGRAPH_MQTT_URL: mqtt"),
        ("mqtt", {"url": "mqqt://me:s3cret@h"}, "ODOGRAPH_MQTT_URL: mqtt"),
        ("mqtt", {"url": "mqtt://me:s3cret@h:0"}, "ODOGRAPH_MQTT_URL: mqtt"),
        ("mqtt", {"url": "mqtt://me:s3cret@h:65536"}, "from 1 to 65535"),
        ("mqtt", {"url": "mqtt://me:s3cret@h/x"}, "nothing may follow host and port"),
        ("mqtt", {"url": "mqtt://me:s3cret@h?tls=1"}, "nothing may follow host and port"),
        ("mqtt", {"url": "mqtt://:s3cret@h"}, "without its user"),
        ("mqtt", {"url": "mqtt://me:s3cret@h", "ca_file": "ca.pem"}, "ODOGRAPH_MQTT_CA_FILE: for mqtts"),
        ("mqtt", {"ca_file": "ca.pem"}, "ODOGRAPH_MQTT_CA_FILE: for mqtts"),
        ("mqtt", {"url": "mqtts://me:s3cret@h", "key_file": "k"}, "go together"),
        ("mqtt", {"url": "mqtt://me:s3cret@h", "port": 1883}, "ODOGRAPH_MQTT_PORT is the embedded"),
        ("mqtt", {"root": "odograph//v1"}, "ODOGRAPH_MQTT_ROOT: "),
        ("mqtt", {"root": "odograph/#"}, "ODOGRAPH_MQTT_ROOT: "),
        ("kafka", {"bootstrap": "kafka://h:9092"}, "ODOGRAPH_KAFKA_BOOTSTRAP: host:port"),
        ("kafka", {"bootstrap": "me:s3cret@h:9092"}, "ODOGRAPH_KAFKA_BOOTSTRAP: host:port"),
        ("kafka", {"bootstrap": "h"}, "ODOGRAPH_KAFKA_BOOTSTRAP: host:port"),
        ("kafka", {"bootstrap": "h:9092,h:99999"}, "ODOGRAPH_KAFKA_BOOTSTRAP: host:port"),
        ("kafka", {"bootstrap": "h:9092", "port": 9092}, "ODOGRAPH_KAFKA_PORT is the embedded"),
        ("kafka", {"bootstrap": "h:9092", "cert_file": "c"}, "ODOGRAPH_KAFKA_CERT_FILE needs _CA_FILE"),
        ("kafka", {"ca_file": "c"}, "ODOGRAPH_KAFKA_CERT_FILE needs _CA_FILE"),
        ("kafka", {"prefix": "odo graph"}, "ODOGRAPH_KAFKA_PREFIX: "),
        ("kafka", {"replication_factor": 2, "min_insync": 3}, "ODOGRAPH_KAFKA_MIN_INSYNC is more than"),
        ("db", {"url": "mysql://me:s3cret@h/d"}, "ODOGRAPH_DB_URL: postgresql"),
        ("db", {"url": "postgresql://me:s3cret@h"}, "ODOGRAPH_DB_URL: postgresql"),
        ("db", {"url": "postgresql://me:s3cret@h:70000/d"}, "from 1 to 65535"),
        ("db", {"url": "postgresql://me:s3cret@h/d?sslmod=require"}, "does not know"),
        ("db", {"url": "postgresql://h/d?user=me&password=s3cret"}, "ODOGRAPH_DB_URL: postgresql"),
        ("db", {"url": "postgresql://me:s3cret@h/d", "ingest_url": "postgresql://me:x@h/d"}, "its own user"),
        ("watch", {"parts": "jobs=h:8080,events"}, "'events': name=host:port is wanted"),
        ("watch", {"parts": "jobs=h:80800"}, "'jobs=h:80800': name=host:port is wanted"),
        ("region", {"name": "A", "other": "B=h:9092,h:0"}, "ODOGRAPH_REGION_OTHER: NAME=host:port"),
        ("bridge", {"password_file": "word"}, "ODOGRAPH_BRIDGE_PASSWORD_FILE is without"),
    ],
)
def test_what_cannot_be_honoured_is_an_error_that_names_the_setting_and_no_password(
    section: str, values: dict[str, object], told: str
) -> None:
    with pytest.raises(ConfigError, match=told) as failed:
        settings.load(**{section: values})
    assert "s3cret" not in str(failed.value)


@pytest.mark.parametrize(
    ("kept", "name", "section"),
    [
        ({"roads_days": 27}, "ROADS", "ROADS"),
        ({"windows_days": 3, "minutes_days": 10, "hours_days": 27}, "HOURS", "RECOMPUTE"),
    ],
)
def test_what_is_kept_for_less_than_its_history_is_refused_by_both_names(
    kept: dict[str, int], name: str, section: str
) -> None:
    told = (
        rf"ODOGRAPH_RETENTION_{name}_DAYS 27: 0, or no fewer than ODOGRAPH_{section}_HISTORY_DAYS \(28\)\. "
    )
    with pytest.raises(ConfigError, match=f"^wrong setting: {told}"):
        settings.load(retention=kept)
    settings.load(retention=kept, **{section.lower(): {"history_days": 27}})
    settings.load(retention=kept | {f"{name.lower()}_days": 0})


def test_a_time_zone_that_is_none_is_refused() -> None:
    with pytest.raises(ConfigError, match="ODOGRAPH_TZ: a time zone"):
        settings.load(tz="Europe/Nowhere")


def test_user_password_tls_and_files_of_a_broker_are_read(empty_folder: Path) -> None:
    found = settings.load(
        mqtt={"url": "mqtts://me:p%40ss@[::1]", "ca_file": "ca.pem", "cert_file": "/c", "key_file": "/k"}
    ).mqtt.brokers()
    ca = str(empty_folder / "ca.pem")
    assert found == (MqttBroker("::1", 8883, "me", "p@ss", True, ca, "/c", "/k"),)
    assert str(found[0]) == "mqtts://[::1]:8883"
    assert settings.load().mqtt.brokers() == ()


def test_several_brokers_share_one_login(tmp_path: Path) -> None:
    found = settings.load(
        mqtt={"url": "mqtt://me:p%2Css@h1,h2:1884,[::1]:1885"}, paths={"home": str(tmp_path)}
    )
    brokers = tuple(MqttBroker(*place, "me", "p,ss") for place in (("h1", 1883), ("h2", 1884), ("::1", 1885)))
    assert found.mqtt.brokers() == brokers
    assert settings.endpoints(found, ["mqtt_host"]).brokers == brokers
    kept = json.dumps(asdict(settings.external(found)))
    (tmp_path / "endpoints.json").write_text(kept)
    assert settings.endpoints(found).brokers == brokers
    with pytest.raises(ConfigError, match="ODOGRAPH_MQTT_URL: not what"):
        settings.endpoints(settings.load(mqtt={"url": "mqtt://me:p%2Css@h1"}, paths={"home": str(tmp_path)}))


@pytest.mark.parametrize(
    ("key", "given", "used"),
    [
        ("url", "//me@a,b/d", "//me@a,b/d?target_session_attrs=read-write"),
        ("ingest_url", "//me@a:1,b:2/d?sslmode=require",
         "//me@a:1,b:2/d?sslmode=require&target_session_attrs=read-write"),
        ("dashboard_url", "//me@a,b/d", "//me@a,b/d?target_session_attrs=primary"),
        ("dashboard_url", "//me@a/d?target_session_attrs=read-write",
         "//me@a/d?target_session_attrs=primary"),
        ("dashboard_url", "//me@a,b/d?target_session_attrs=any", "//me@a,b/d?target_session_attrs=any"),
        ("dispatch_url", "//me@a/d", "//me@a/d"),
    ],
)  # fmt: skip
def test_of_several_database_servers_the_one_that_takes_writes_is_sought(
    key: str, given: str, used: str
) -> None:
    assert settings.load(db={key: f"postgresql:{given}"}).db.given() == {key: f"postgresql:{used}"}


def test_the_files_of_an_external_kafka_reach_every_client_or_are_named_where_they_are_wrong(
    tmp_path: Path,
) -> None:
    authority = Authority(tmp_path, SERVICES)
    ca, us, one = authority.folder / "ca.pem", tmp_path / "us.pem", authority.issue("us")
    files: dict[str, Any] = {"ca_file": ca, "cert_file": us}
    open_one, with_files = (
        settings.load(kafka={"bootstrap": "k1:9093,k2:9093"} | more).kafka.address() for more in ({}, files)
    )
    with pytest.raises(ConfigError, match=f"certificates for Kafka k1:9093,k2:9093: {us}: .*No such file"):
        kafka.access(with_files)
    us.write_text(one.certificate.read_text())
    with pytest.raises(ConfigError, match=f"{us}: .*PEM"):
        kafka.producer(with_files)
    us.write_text(one.certificate.read_text() + one.key.read_text())
    assert (kafka.access(open_one), kafka.java_access(open_one)) == (
        {"bootstrap.servers": "k1:9093,k2:9093"}, {"kafka.bootstrap.servers": "k1:9093,k2:9093"}
    )  # fmt: skip
    assert kafka.access(with_files) == {
        "bootstrap.servers": "k1:9093,k2:9093", "security.protocol": "ssl", "ssl.ca.location": f"{ca}",
        "ssl.certificate.location": f"{us}", "ssl.key.location": f"{us}",
    }  # fmt: skip
    assert kafka.java_access(with_files) == {
        "kafka.bootstrap.servers": "k1:9093,k2:9093", "kafka.security.protocol": "SSL",
        "kafka.ssl.truststore.type": "PEM", "kafka.ssl.truststore.location": f"{ca}",
        "kafka.ssl.keystore.type": "PEM", "kafka.ssl.keystore.location": f"{us}",
    }  # fmt: skip


def test_a_program_runs_by_its_settings_alone_and_names_what_it_lacks(tmp_path: Path) -> None:
    given: dict[str, Any] = {"paths": {"home": str(tmp_path)}, "kafka": {"bootstrap": "k1:9092,k2:9092"},
                             "db": {"ingest_url": "postgresql://me:s3cret@d/odograph"},
                             "bridge": {"http_port": 7000, "shards": 2},
                             "health": {"port": 8080, "address": "0.0.0.0", "hosts": "a, B"}}  # fmt: skip
    found = settings.endpoints(settings.load(**given), ["kafka_bootstrap", "db_ingest_url"])
    assert (found.kafka_bootstrap, found.db_ingest_url) == ("k1:9092,k2:9092", given["db"]["ingest_url"])
    assert found.health("events") == Listen(8080, "0.0.0.0", ("a", "b"))
    assert found.health("bridge-2").port == 7001
    lacking = (
        "^ODOGRAPH_MQTT_URL, ODOGRAPH_DB_URL, ODOGRAPH_DB_DASHBOARD_URL, ODOGRAPH_DB_DISPATCH_URL: not set"
    )
    with pytest.raises(ConfigError, match=lacking):
        settings.endpoints(settings.load(**given))
    with pytest.raises(ServiceError, match="no running stack here"):
        settings.endpoints(settings.load(paths=given["paths"]))


@pytest.mark.parametrize(
    ("given", "brokers", "copies"),
    [
        ({}, 1, (1, 1)),
        ({}, 2, (2, 1)),
        ({}, 5, (3, 2)),
        ({"replication_factor": 3}, 1, (3, 2)),
        ({"min_insync": 2}, 1, (2, 2)),
        ({"replication_factor": 5, "min_insync": 3}, 5, (5, 3)),
    ],
)
def test_a_topic_has_three_copies_two_of_them_in_sync_where_there_are_brokers_for_it(
    given: dict[str, int], brokers: int, copies: tuple[int, int]
) -> None:
    assert settings.load(kafka=given).kafka.copies(brokers) == copies


def test_where_data_lies_is_a_folder_or_a_url_and_by_default_the_home(empty_folder: Path) -> None:
    places = settings.load(paths={"checkpoints": "hdfs://h:9000/odograph/c/", "lookups": "shared"}).paths
    assert places.place("checkpoints") == "hdfs://h:9000/odograph/c"
    assert places.place("lookups") == str(empty_folder / "shared")
    assert settings.load().paths.place("lookups") == str(empty_folder / ".odograph" / "lookups")
    for wrong in ("s3a://key:s3cret@bucket/x", "hdfs://h:9000/", "hdfs://h/x?a=b"):
        with pytest.raises(ConfigError, match="ODOGRAPH_PATHS_LOOKUPS: a folder, or a URL") as failed:
            settings.load(paths={"lookups": wrong})
        assert "s3cret" not in str(failed.value)


def test_another_database_or_user_keeps_hosts_and_parameters() -> None:
    url = "postgresql://me:s3cret@a:5432,b:5433/odograph?sslmode=require&target_session_attrs=read-write"
    assert database_url.with_name(url, "run") == url.replace("/odograph?", "/run?")
    assert database_url.with_user(url, "you", "p@ss") == url.replace("me:s3cret", "you:p%40ss")


def test_other_external_services_than_the_stack_was_started_with_are_an_error(
    tmp_path: Path,
) -> None:
    addresses = settings.Endpoints(
        "h",
        1883,
        "k:9092",
        "postgresql://me:x@d/run",
        "",
        "",
        mqtt_access={"user": "me", "password": "s3cret"},
    )
    (tmp_path / "endpoints.json").write_text(json.dumps(asdict(addresses)))
    home = {"home": str(tmp_path)}
    same = {"mqtt": {"url": "mqtt://me:s3cret@h"}, "kafka": {"bootstrap": "k:9092"},
            "db": {"url": "postgresql://me:x@d/odograph"}}  # fmt: skip
    assert settings.endpoints(settings.load(paths=home, **same)) == addresses
    other = {"mqtt": {"url": "mqtt://me:other@h"}, "kafka": {"bootstrap": "k:9093"},
             "db": {"url": "postgresql://me:x@e/odograph"}}  # fmt: skip
    told = "ODOGRAPH_MQTT_URL, ODOGRAPH_KAFKA_BOOTSTRAP, ODOGRAPH_DB_URL: .*odograph up"
    with pytest.raises(ConfigError, match=told):
        settings.endpoints(settings.load(paths=home, **other))


def test_a_key_with_an_underscore_is_read_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ODOGRAPH_BRIDGE_MAX_IN_FLIGHT_BYTES", "70000")
    assert settings.load().bridge.max_in_flight_bytes == 70_000


def test_a_password_in_an_address_is_never_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ODOGRAPH_DB_URL", "postgresql://me:s3cret@db/odograph")
    monkeypatch.setenv("ODOGRAPH_MQTT_URL", "mqtt://me:s3cret@broker")
    found = settings.load()
    shown = repr(found) + str([(row.variable, row.value) for row in settings.settings_in_force(found)])
    assert "s3cret" not in shown


def test_the_table_says_where_each_value_comes_from(
    empty_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (empty_folder / ".odograph.toml").write_text("[mqtt]\nport = 1\n")
    monkeypatch.setenv("ODOGRAPH_KAFKA_PORT", "2")
    sources = {row.variable: row.source for row in settings.settings_in_force(settings.load())}
    assert sources["ODOGRAPH_MQTT_PORT"] == ".odograph.toml"
    assert sources["ODOGRAPH_KAFKA_PORT"] == "environment"
    assert sources["ODOGRAPH_DB_PORT"] == "default"


def test_a_variable_in_small_letters_is_read_shown_and_checked_as_any(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("odograph_kafka_port", "2")
    shown = {row.variable: row[1:3] for row in settings.settings_in_force(settings.load())}
    assert shown["ODOGRAPH_KAFKA_PORT"] == ("2", "environment")
    monkeypatch.setenv("odograph_kafkas_port", "2")
    with pytest.raises(ConfigError, match=r"ODOGRAPH_KAFKAS_PORT: .* did you mean ODOGRAPH_KAFKA_PORT\?"):
        settings.load()


def test_the_table_holds_every_variable_with_a_meaning() -> None:
    rows = settings.settings_in_force(settings.load())
    assert [row.variable for row in rows] == settings.known_variables()
    assert [row.variable for row in rows if not row.meaning] == []


def test_addresses_of_a_stack_that_never_ran_say_how_to_start_it(tmp_path: Path) -> None:
    with pytest.raises(ServiceError, match="odograph up"):
        settings.endpoints(settings.load(paths={"home": str(tmp_path)}))


def test_addresses_do_not_show_their_passwords() -> None:
    shown = repr(settings.Endpoints("127.0.0.1", 1883, "127.0.0.1:9092", "postgresql://a:s3cret@h/d", "", ""))
    assert shown == "Endpoints(mqtt=127.0.0.1:1883, kafka=127.0.0.1:9092, db=***)"


def test_a_level_is_kept_longer_than_the_one_it_is_made_of() -> None:
    kept = Retention(windows_days=5, minutes_days=7, hours_days=9, days_days=0)
    assert kept.days_by_table()["vehicle_minute"] == 7
    assert Retention(windows_days=0, minutes_days=0, hours_days=0).days_by_table()["vehicle_window"] == 0


@pytest.mark.parametrize("days", [(5, 6, 0), (0, 90, 0), (5, 0, 90)])
def test_a_level_that_would_go_before_the_one_below_is_refused(days: tuple[int, int, int]) -> None:
    windows, minutes, hours = days
    with pytest.raises(ValidationError, match="days or more above"):
        Retention(windows_days=windows, minutes_days=minutes, hours_days=hours)


def test_addresses_of_another_users_stack_are_told_as_such(
    empty_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(path: Path) -> str:
        raise PermissionError(13, "Permission denied", str(path))

    found = settings.load(paths={"home": str(empty_folder)})
    (empty_folder / settings.ENDPOINTS_FILE).touch()
    monkeypatch.setattr(Path, "read_text", refused)
    with pytest.raises(ConfigError, match=r"endpoints\.json: Permission denied; run as the user"):
        settings.endpoints(found)


def test_addresses_of_a_stack_that_is_starting_come_when_it_runs(tmp_path: Path) -> None:
    where = settings.Endpoints("127.0.0.1", 1883, "127.0.0.1:9092", "", "", "")
    with ThreadPoolExecutor(1) as pool:
        with locked(tmp_path / settings.LOCK_FILE):
            asked = pool.submit(settings.endpoints, settings.load(paths={"home": str(tmp_path)}))
            with pytest.raises(TimeoutError):
                asked.result(0.3)
            (tmp_path / settings.ENDPOINTS_FILE).write_text(json.dumps(asdict(where)))
        assert asked.result(30) == where


@pytest.mark.parametrize(
    ("mode", "user", "good"),
    [
        (0o600, 0, True), (0o640, 0, False), (0o440, 10001, True), (0o444, 10001, False),
        (0o660, 10001, False),
    ],
)  # fmt: skip
def test_a_secret_of_root_may_be_read_by_our_group_where_we_are_not_root(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int, user: int, good: bool
) -> None:
    file = tmp_path / "key"
    file.write_text("secret\n")
    file.chmod(mode)
    if file.stat().st_uid:
        pytest.skip("the file is not root's here")
    monkeypatch.setattr("os.geteuid", lambda: user)
    with nullcontext() if good else pytest.raises(ConfigError, match="others may read it"):
        assert read_secret(file, "--key") == "secret"
