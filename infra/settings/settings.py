"""Settings: frozen, validated, from ``ODOGRAPH_<SECTION>_<KEY>``, then ``.odograph.toml``, then defaults.

An empty ``mqtt.url``, ``kafka.bootstrap`` or ``db.url`` means the embedded service: its address is then read
from ``<home>/endpoints.json``, which ``odograph up`` writes. An address in the settings means an external
service: the embedded one is not started.
"""

from __future__ import annotations

import difflib
import json
import os
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import Field, ValidationError, field_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict
from pydantic_settings import TomlConfigSettingsSource as TomlSource

from infra.clients import database_url
from infra.clients.locks import locked
from infra.clients.mqtt_broker import MqttBroker
from infra.contract.errors import ConfigError, ServiceError
from infra.settings import sections

PREFIX = "ODOGRAPH_"
CONFIG_FILE = ".odograph.toml"
ENDPOINTS_FILE, LOCK_FILE = "endpoints.json", "stack.lock"
RENAMED = {
    "ODOGRAPH_JOBS_FORGET_H": "ODOGRAPH_JOBS_STATE_TTL_H",
    "ODOGRAPH_JOBS_HOLD_FRAMES": "ODOGRAPH_JOBS_REORDER_BUFFER_FRAMES",
    "ODOGRAPH_JOBS_REHEARSE_LATE_H": "ODOGRAPH_JOBS_BACKTEST_LATE_H",
    "ODOGRAPH_JOBS_WATERMARK_S": "ODOGRAPH_JOBS_LATENESS_S",
    "ODOGRAPH_RECOMPUTE_ATTEMPT_S": "ODOGRAPH_RECOMPUTE_TRANSACTION_TIMEOUT_S",
    "ODOGRAPH_RECOMPUTE_LOOK_S": "ODOGRAPH_RECOMPUTE_POLL_INTERVAL_S",
}
"""Settings of earlier versions and their names now; the file's keys follow from these."""


class Settings(BaseSettings):
    """All settings in force."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, env_nested_delimiter="_", env_nested_max_split=1, toml_file=CONFIG_FILE,
        frozen=True, extra="forbid", hide_input_in_errors=True,
    )  # fmt: skip

    tz: str = Field("UTC", description="time zone shown to people; stored times are UTC")

    @field_validator("tz")
    @classmethod
    def _known_zone(cls, tz: str) -> str:
        try:
            ZoneInfo(tz)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            raise ValueError("a time zone such as UTC or Europe/Berlin is wanted") from None
        return tz

    paths: sections.Paths = sections.Paths()
    mqtt: sections.Mqtt = sections.Mqtt()
    kafka: sections.Kafka = sections.Kafka()
    db: sections.Db = sections.Db()
    bridge: sections.Bridge = sections.Bridge()
    downlink: sections.Downlink = sections.Downlink()
    jobs: sections.Jobs = sections.Jobs()
    roads: sections.Roads = sections.Roads()
    crash: sections.Crash = sections.Crash()
    cohort: sections.Cohort = sections.Cohort()
    recompute: sections.Recompute = sections.Recompute()
    archive: sections.Archive = sections.Archive()
    journeys: sections.Journeys = sections.Journeys()
    ledger: sections.Ledger = sections.Ledger()
    retention: sections.Retention = sections.Retention()
    watch: sections.Watch = sections.Watch()
    dashboard: sections.Dashboard = sections.Dashboard()

    @classmethod
    def settings_customise_sources(
        cls, settings_cls: type[BaseSettings], init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource, *_: Any, **__: Any,
    ) -> tuple[PydanticBaseSettingsSource, ...]:  # fmt: skip
        """Arguments, then environment, then the file."""
        return init_settings, env_settings, TomlSource(settings_cls)


@dataclass(frozen=True, slots=True)
class Endpoints:
    """Addresses of the running services. ``db_*_url`` are libpq URLs, one per role."""

    mqtt_host: str
    mqtt_port: int
    kafka_bootstrap: str
    db_owner_url: str
    db_ingest_url: str
    db_dashboard_url: str
    http_ports: dict[str, int] = field(default_factory=dict)
    """Port of each process by name: bridge, downlink, jobs, instant, events, maintenance, ..."""
    db_dispatch_url: str = ""
    """For what people do with alerts; empty: written by an older `odograph up`."""
    mqtt_access: dict[str, Any] = field(default_factory=dict)
    """How to log in to an external broker: what MqttBroker holds beside host and port."""

    @property
    def mqtt(self) -> MqttBroker:
        """The broker."""
        return MqttBroker(self.mqtt_host, self.mqtt_port, **self.mqtt_access)

    def __repr__(self) -> str:
        """Without the secrets."""
        return f"Endpoints(mqtt={self.mqtt_host}:{self.mqtt_port}, kafka={self.kafka_bootstrap}, db=***)"


def load(**overrides: Any) -> Settings:
    """The settings in force; raises ConfigError with every wrong value and unknown variable named."""
    wrong = {name: _unknown(name) for name in unknown_variables(os.environ)}
    try:
        found = Settings(**overrides)
    except ValidationError as error:
        for e in error.errors(include_input=False, include_url=False, include_context=False):
            name = f"{PREFIX}{'_'.join(map(str, e['loc']))}".upper()
            why = _unknown(name) if e["type"] == "extra_forbidden" else e["msg"]
            wrong.setdefault(name, why.removeprefix("Value error, "))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{CONFIG_FILE}: {error}") from error
    if wrong:
        named = (why if why.startswith(PREFIX) else f"{name}: {why}" for name, why in wrong.items())
        raise ConfigError(f"wrong setting: {'; '.join(named)}. `odograph config` lists all settings")
    return found


def known_variables() -> list[str]:
    """Every variable that the settings read."""
    names = []
    for section, info in Settings.model_fields.items():
        keys = getattr(info.annotation, "model_fields", None)
        names += [f"{section}_{key}" for key in keys] if keys else [section]
    return [f"{PREFIX}{name}".upper() for name in names]


def unknown_variables(environment: Iterable[str]) -> list[str]:
    """Variables that look like settings and are none."""
    return sorted({name for name in environment if name.startswith(PREFIX)} - {*known_variables()})


def _unknown(name: str) -> str:
    if name in RENAMED:
        return f"was renamed to {RENAMED[name]}"
    near = difflib.get_close_matches(name, known_variables(), n=1)
    return "there is no such setting" + (f"; did you mean {near[0]}?" if near else "")


def endpoints(settings: Settings) -> Endpoints:
    """Addresses of the running stack; of one that is starting, once it runs. Raises ServiceError without one.

    Raises ConfigError where the settings name other external services than it was started with.
    """
    path, lock = (settings.paths.home / name for name in (ENDPOINTS_FILE, LOCK_FILE))
    if not path.exists() and lock.exists():
        with locked(lock, shared=True):
            pass
    try:
        found = Endpoints(**json.loads(path.read_text()))
    except FileNotFoundError as error:
        raise ServiceError(f"no running stack here ({path} is missing); start it: odograph up") from error
    except (json.JSONDecodeError, TypeError) as error:
        raise ServiceError(f"{path} cannot be read ({error}); run: odograph down && odograph up") from error
    other = _disagreeing(settings, found)
    if other:
        raise ConfigError(f"{', '.join(other)}: not what {path} was written with; take it over: odograph up")
    return found


def _disagreeing(settings: Settings, found: Endpoints) -> list[str]:
    """Settings of external services that are not in force; a replay has a database of its own there."""
    broker, bootstrap = settings.mqtt.broker(), settings.kafka.bootstrap
    other = ["ODOGRAPH_MQTT_URL"] if broker not in (None, found.mqtt) else []
    other += ["ODOGRAPH_KAFKA_BOOTSTRAP"] if bootstrap not in ("", found.kafka_bootstrap) else []
    for key, url in settings.db.given().items():
        ours = getattr(found, f"db_{key}" if key != "url" else "db_owner_url")
        same = database_url.with_name(url, "x") == database_url.with_name(ours, "x")
        other += [] if same else [f"ODOGRAPH_DB_{key}".upper()]
    return other
