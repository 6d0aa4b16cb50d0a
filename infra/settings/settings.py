"""Settings: frozen, validated, from ``ODOGRAPH_<SECTION>_<KEY>``, then ``.odograph.toml``, then the home's
``settings.toml`` (``odograph cluster up`` writes it), then defaults.

An empty ``mqtt.url``, ``kafka.bootstrap`` or ``db.*url`` means the embedded service: its address is then read
from ``<home>/endpoints.json``, which ``odograph up`` writes. An address in the settings means an external
service: the embedded one is not started. Where no stack was started, a program runs by its settings alone.
"""

import difflib
import json
import os
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from pathlib import Path
from typing import Any, NamedTuple, Self
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import Field, ValidationError, field_validator, model_validator
from pydantic.fields import FieldInfo
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from infra.clients import database_url
from infra.clients.health import HOST, Listen
from infra.clients.locks import locked
from infra.clients.mqtt_broker import MqttBroker
from infra.clients.tables import rendered, table
from infra.contract.errors import ConfigError, ServiceError, raised_as
from infra.contract.policy import OPERATOR
from infra.settings import sections
from infra.settings.files import read_json, wanted

PREFIX = "ODOGRAPH_"
CONFIG_FILE, HOME_FILE = ".odograph.toml", "settings.toml"
ENDPOINTS_FILE, LOCK_FILE = "endpoints.json", "stack.lock"
RENAMED = {
    "ODOGRAPH_JOBS_FORGET_H": "ODOGRAPH_JOBS_STATE_TTL_H",
    "ODOGRAPH_JOBS_HOLD_FRAMES": "ODOGRAPH_JOBS_REORDER_BUFFER_FRAMES",
    "ODOGRAPH_JOBS_REHEARSE_LATE_H": "ODOGRAPH_JOBS_BACKTEST_LATE_H",
    "ODOGRAPH_JOBS_WATERMARK_S": "ODOGRAPH_JOBS_LATENESS_S",
    "ODOGRAPH_PATHS_ARCHIVE": "ODOGRAPH_ARCHIVE_URL",
    "ODOGRAPH_RECOMPUTE_ATTEMPT_S": "ODOGRAPH_RECOMPUTE_TRANSACTION_TIMEOUT_S",
    "ODOGRAPH_RECOMPUTE_LOOK_S": "ODOGRAPH_RECOMPUTE_POLL_INTERVAL_S",
}
"""Settings of earlier versions and their names now; the file's keys follow from these."""
Sections = dict[str, dict[str, object]]  # values by section and key


class _Environment(EnvSettingsSource):
    """A list or section that is no JSON stays as it is: the check of the field tells what is wanted."""

    def decode_complex_value(self, field_name: str, field: FieldInfo, value: Any) -> Any:
        try:
            return super().decode_complex_value(field_name, field, value)
        except ValueError:
            return value


class _File(TomlConfigSettingsSource):
    """Raises ConfigError that names the file."""

    def _read_file(self, file_path: Any) -> dict[str, Any]:
        with raised_as(ConfigError, str(file_path), OSError, tomllib.TOMLDecodeError, UnicodeDecodeError):
            return super()._read_file(file_path)


class Settings(BaseSettings):
    """All settings in force."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, env_nested_delimiter="_", env_nested_max_split=1, toml_file=CONFIG_FILE,
        frozen=True, extra="forbid", hide_input_in_errors=True,
    )  # fmt: skip

    tz: str = Field("UTC", description="time zone shown to people; stored times are UTC")

    secure: bool = Field(
        False, description="certificates, logins and access lists on every hop: as odograph up --secure"
    )

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
    health: sections.Health = sections.Health()
    jobs: sections.Jobs = sections.Jobs()
    roads: sections.Roads = sections.Roads()
    crash: sections.Crash = sections.Crash()
    cohort: sections.Cohort = sections.Cohort()
    recompute: sections.Recompute = sections.Recompute()
    archive: sections.Archive = sections.Archive()
    journeys: sections.Journeys = sections.Journeys()
    ledger: sections.Ledger = sections.Ledger()
    overload: sections.Overload = sections.Overload()
    retention: sections.Retention = sections.Retention()
    lease: sections.Lease = sections.Lease()
    region: sections.Region = sections.Region()
    cluster: sections.Profile = sections.Profile()
    watch: sections.Watch = sections.Watch()
    dashboard: sections.Dashboard = sections.Dashboard()

    @model_validator(mode="after")
    def _history_is_kept(self) -> Self:
        for name, kept, reader, history_days in (
            ("ROADS", self.retention.roads_days, "ROADS", self.roads.history_days),
            ("HOURS", self.retention.hours_days, "RECOMPUTE", self.recompute.history_days),
        ):
            if 0 < kept < history_days:
                least = f"ODOGRAPH_{reader}_HISTORY_DAYS ({history_days})"
                raise ValueError(f"ODOGRAPH_RETENTION_{name}_DAYS {kept}: 0, or no fewer than {least}")
        return self

    @classmethod
    def settings_customise_sources(
        cls, settings_cls: type[BaseSettings], init_settings: PydanticBaseSettingsSource, *_: Any, **__: Any
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Arguments, then environment, then the file, then that of the home that these name."""
        given = (init_settings, _Environment(settings_cls), _File(settings_cls))
        homes = (_at(source(), ("paths", "home")) for source in given)
        home = next((at for at in homes if at and isinstance(at, str | Path)), sections.Paths().home)
        return *given, _File(settings_cls, Path(home) / HOME_FILE)

    def changed(self, sections_: Sections) -> "Settings":
        """With these values in place of those in force."""
        given = self.model_dump()
        for section, values in sections_.items():
            given[section] = given[section] | values
        return Settings(**given)


SETTING_OF = {
    "mqtt_host": "ODOGRAPH_MQTT_URL",
    "kafka_bootstrap": "ODOGRAPH_KAFKA_BOOTSTRAP",
    "db_owner_url": "ODOGRAPH_DB_URL",
    "db_ingest_url": "ODOGRAPH_DB_INGEST_URL",
    "db_dashboard_url": "ODOGRAPH_DB_DASHBOARD_URL",
    "db_dispatch_url": "ODOGRAPH_DB_DISPATCH_URL",
}
"""By address, the setting that names it where no stack was started."""


FILES = ("cert_file", "key_file")


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
    db_dispatch_url: str = ""  # for what people do with alerts; empty: written by an older `odograph up`
    db_program_urls: dict[str, str] = field(default_factory=dict)
    """By program its own login, in the place of ``db_ingest_url``; none: the settings name one for all."""
    mqtt_access: dict[str, Any] = field(default_factory=dict)
    """What MqttBroker holds beside host and port; ``{who}`` in names of files stands for the program."""
    mqtt_others: list[list[Any]] = field(default_factory=list)
    """Host and port of each further broker of a cluster."""
    device_port: int = 0  # where the broker takes vehicles by their certificates; 0: as everybody else
    dashboard_tls: str = ""
    """Certificate and key of the dashboard (PEM), its authority beside it as ca.pem; empty: plain http."""
    http_port: int = 0  # of a process that is not in ``http_ports``; 0: any free one
    http_address: str = HOST
    http_hosts: list[str] = field(default_factory=list)

    @property
    def mqtt(self) -> MqttBroker:
        """The broker; of several the first."""
        return self.brokers[0]

    @property
    def brokers(self) -> tuple[MqttBroker, ...]:
        """All brokers: each client is connected to one of them, and to another one where that is away."""
        places = ((self.mqtt_host, self.mqtt_port), *self.mqtt_others)
        return tuple(MqttBroker(host, port, **self.mqtt_access) for host, port in places)

    def logged_in(self, who: str) -> "Endpoints":
        """With certificate and database login of this program, where each has its own."""
        files = {key: text.format(who=who) for key, text in self.mqtt_access.items() if key in FILES}
        bootstrap = self.kafka_bootstrap.replace("{who}", who)
        urls = self.db_program_urls
        return replace(
            self, mqtt_access=self.mqtt_access | files, kafka_bootstrap=bootstrap,
            db_ingest_url=urls.get(who, self.db_ingest_url), db_program_urls=urls if who == OPERATOR else {},
        )  # fmt: skip

    @property
    def dashboard_scheme(self) -> str:
        """What browsers speak with the dashboard."""
        return "https" if self.dashboard_tls else "http"

    @property
    def pages(self) -> dict[str, str]:
        """Where the page of each process is, by name, as probes read it: ``host:port[?ca=FILE]``."""
        found = {name: f"{HOST}:{port}" for name, port in self.http_ports.items()}
        if self.dashboard_tls and "dashboard" in found:
            found["dashboard"] += f"?ca={Path(self.dashboard_tls).with_name('ca.pem')}"
        return found

    def health(self, part: str) -> Listen:
        """Where the health page of this process listens."""
        return Listen(self.http_ports.get(part, self.http_port), self.http_address, tuple(self.http_hosts))

    def __repr__(self) -> str:
        """Without the secrets."""
        return f"Endpoints(mqtt={self.mqtt_host}:{self.mqtt_port}, kafka={self.kafka_bootstrap}, db=***)"


def load(**overrides: Any) -> Settings:
    """The settings in force; raises ConfigError with every wrong value and unknown variable named."""
    wrong = {name: _unknown(name) for name in unknown_variables(os.environ)}
    try:
        found = Settings(**overrides)
    except ValidationError as error:
        for e in error.errors(include_input=False, include_url=False):
            name = f"{PREFIX}{'_'.join(map(str, e['loc']))}".upper()
            wrong.setdefault(name, _unknown(name) if e["type"] == "extra_forbidden" else wanted(e))
    if wrong:
        named = (why if why.startswith(PREFIX) else f"{name}: {why}" for name, why in wrong.items())
        raise ConfigError(f"wrong setting: {'; '.join(named)}. `odograph config` lists all settings")
    return found


def known_variables() -> list[str]:
    """Every variable that the settings read."""
    return [variable for _, variable, _ in _declared()]


def _declared() -> Iterator[tuple[tuple[str, ...], str, str]]:
    """Place, variable and meaning of every setting, in the order of the declaration."""
    for section, info in Settings.model_fields.items():
        own: dict[str, FieldInfo] = getattr(info.annotation, "model_fields", {})
        fields: dict[tuple[str, ...], FieldInfo] = {(section, key): of for key, of in own.items()}
        for path, of in (fields or {(section,): info}).items():
            yield path, f"{PREFIX}{'_'.join(path)}".upper(), of.description or ""


def unknown_variables(environment: Iterable[str]) -> list[str]:
    """Variables that look like settings and are none. They are read in small letters, too."""
    given = {name.upper() for name in environment}
    return sorted({name for name in given if name.startswith(PREFIX)} - {*known_variables()})


def _unknown(name: str) -> str:
    if name in RENAMED:
        return f"was renamed to {RENAMED[name]}"
    near = difflib.get_close_matches(name, known_variables(), n=1)
    return "there is no such setting" + (f"; did you mean {near[0]}?" if near else "")


def fixed_ports(settings: Settings) -> dict[str, int]:
    """Ports of processes that the settings fix, by name."""
    s = settings
    found = {"downlink": s.downlink.http_port, "dashboard": s.dashboard.port}
    if s.bridge.http_port:
        found |= {name: s.bridge.http_port + k for k, name in enumerate(sections.bridges(s.bridge.shards))}
    return {name: port for name, port in found.items() if port}


def external(settings: Settings) -> Endpoints:
    """The addresses that the settings name; empty where they name none."""
    s, urls = settings, settings.db.given()
    first, *others = s.mqtt.brokers() or (MqttBroker("", 0),)
    return Endpoints(
        mqtt_host=first.host,
        mqtt_port=first.port,
        mqtt_access=first.access(),
        mqtt_others=[[broker.host, broker.port] for broker in others],
        kafka_bootstrap=s.kafka.address(),
        db_owner_url=urls.get("url", ""),
        db_ingest_url=urls.get("ingest_url", ""),
        db_dashboard_url=urls.get("dashboard_url", ""),
        db_dispatch_url=urls.get("dispatch_url", ""),
        http_ports=fixed_ports(s),
        http_port=s.health.port,
        http_address=str(s.health.address),
        http_hosts=[*sections.listed(s.health.hosts)],
    )


def endpoints(settings: Settings, needs: Iterable[str] = SETTING_OF, who: str = OPERATOR) -> Endpoints:
    """Addresses of the running stack, of one that is starting once it runs; else those of the settings.

    ``needs``: the addresses that a program uses; it starts without the others. ``who``: its name in the
    policy, as which it logs in. Raises ServiceError where no stack was started; ConfigError where the
    settings name some services and not all that it needs, or others than the stack was started with, and for
    another user's stack.
    """
    path, lock = (settings.paths.home / name for name in (ENDPOINTS_FILE, LOCK_FILE))
    if not path.exists() and lock.exists():
        with locked(lock, shared=True):
            pass
    try:
        written = read_json(path)
        found = Endpoints(**written) if written else external(settings)
    except TypeError as error:  # of another version
        raise ServiceError(f"{path} cannot be read ({error}); run: odograph down && odograph up") from error
    if not written:
        lacking = [SETTING_OF[name] for name in needs if not getattr(found, name)]
        no_stack = f"no running stack here ({path} is missing); start it: odograph up"
        if lacking and not any(getattr(found, name) for name in SETTING_OF):
            raise ServiceError(no_stack)
        if lacking:
            raise ConfigError(f"{', '.join(lacking)}: not set, and {no_stack}")
        return found
    other = _disagreeing(settings, found)
    if other:
        raise ConfigError(f"{', '.join(other)}: not what {path} was written with; take it over: odograph up")
    return found.logged_in(who)


def _disagreeing(settings: Settings, found: Endpoints) -> list[str]:
    """Settings of external services that are not in force; a replay has a database of its own there."""
    named = external(settings)
    other = ["ODOGRAPH_MQTT_URL"] if settings.mqtt.brokers() not in ((), found.brokers) else []
    for key, setting in SETTING_OF.items():
        ours, theirs = getattr(named, key), getattr(found, key)
        if key == "kafka_bootstrap" and ours not in ("", theirs):
            other.append(setting)
        if key.startswith("db_") and ours:
            same = database_url.with_name(ours, "x") == database_url.with_name(theirs, "x")
            other += [] if same else [setting]
    return other


class Setting(NamedTuple):
    """One setting in force; secrets are masked."""

    variable: str
    value: str
    source: str
    meaning: str


def settings_in_force(settings: Settings) -> list[Setting]:
    """Every setting, in the order of the declaration."""
    paths = {CONFIG_FILE: Path(CONFIG_FILE), HOME_FILE: settings.paths.home / HOME_FILE}
    files = {name: tomllib.loads(path.read_text()) for name, path in paths.items() if path.exists()}
    found, environment = [], {name.upper() for name in os.environ}
    for path, variable, meaning in _declared():
        given = (name for name, file in files.items() if _at(file, path) is not None)
        source = "environment" if variable in environment else next(given, "default")
        found.append(Setting(variable, str(reduce(getattr, path, settings)), source, meaning))
    return found


def _at(file: Any, path: tuple[str, ...]) -> Any:
    return reduce(lambda node, key: node.get(key) if isinstance(node, dict) else None, path, file)


def report(rows: Sequence[Setting], as_json: bool) -> str:
    """The settings as a table, or by variable."""
    if not as_json:
        return rendered(table("variable", "value", "from", "meaning", rows=rows))
    values = {row.variable: {"value": row.value, "source": row.source} for row in rows}
    return json.dumps(values, indent=1, default=str) + "\n"
