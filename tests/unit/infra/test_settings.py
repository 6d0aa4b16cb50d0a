"""Settings: where a value comes from, what is refused, what is masked."""

from __future__ import annotations

from pathlib import Path

import pytest

from infra.contract import settings
from infra.contract.errors import ConfigError, ServiceError
from infra.stack import settings_table


@pytest.fixture(autouse=True)
def empty_folder(clean_environment: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_an_argument_wins_over_the_environment_and_that_over_the_file(
    empty_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (empty_folder / ".odograph.toml").write_text('[mqtt]\nport = 1\nroot = "file/v1"\n[kafka]\nport = 3\n')
    monkeypatch.setenv("ODOGRAPH_MQTT_PORT", "2")
    found = settings.load(kafka={"port": 4})
    assert (found.mqtt.port, found.mqtt.root, found.kafka.port) == (2, "file/v1", 4)


def test_a_wrong_value_is_refused_by_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ODOGRAPH_KAFKA_HEAP_MB", "a lot")
    with pytest.raises(ConfigError, match="ODOGRAPH_KAFKA_HEAP_MB"):
        settings.load()


def test_an_unknown_variable_warns_and_names_the_near_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ODOGRAPH_KAFKAS_PORT", "9092")
    with pytest.warns(UserWarning, match=r"ODOGRAPH_KAFKAS_PORT; did you mean ODOGRAPH_KAFKA_PORT\?"):
        settings.load()


def test_an_unknown_key_of_a_known_section_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ODOGRAPH_MQTT_PROT", "1883")
    with (
        pytest.warns(UserWarning, match="ODOGRAPH_MQTT_PROT"),
        pytest.raises(ConfigError, match="ODOGRAPH_MQTT_PROT"),
    ):
        settings.load()


def test_a_key_with_an_underscore_is_read_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ODOGRAPH_BRIDGE_MAX_IN_FLIGHT_BYTES", "70000")
    assert settings.load().bridge.max_in_flight_bytes == 70_000


def test_the_password_in_the_database_url_is_never_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ODOGRAPH_DB_URL", "postgresql://me:s3cret@db/odograph")
    found = settings.load()
    shown = repr(found) + str([(row.variable, row.value) for row in settings_table.rows(found)])
    assert "s3cret" not in shown


def test_the_table_says_where_each_value_comes_from(
    empty_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (empty_folder / ".odograph.toml").write_text("[mqtt]\nport = 1\n")
    monkeypatch.setenv("ODOGRAPH_KAFKA_PORT", "2")
    sources = {row.variable: row.source for row in settings_table.rows(settings.load())}
    assert sources["ODOGRAPH_MQTT_PORT"] == ".odograph.toml"
    assert sources["ODOGRAPH_KAFKA_PORT"] == "environment"
    assert sources["ODOGRAPH_DB_PORT"] == "default"


def test_the_table_holds_every_variable_with_a_meaning() -> None:
    rows = settings_table.rows(settings.load())
    assert [row.variable for row in rows] == settings.known_variables()
    assert [row.variable for row in rows if not row.meaning] == []


def test_addresses_of_a_stack_that_never_ran_say_how_to_start_it(tmp_path: Path) -> None:
    with pytest.raises(ServiceError, match="odograph up"):
        settings.endpoints(settings.load(paths={"home": str(tmp_path)}))


def test_addresses_do_not_show_their_passwords() -> None:
    shown = repr(settings.Endpoints("127.0.0.1", 1883, "127.0.0.1:9092", "postgresql://a:s3cret@h/d", "", ""))
    assert shown == "Endpoints(mqtt=127.0.0.1:1883, kafka=127.0.0.1:9092, db=***)"
