"""The sections of the settings: one class each, every value with its meaning.

Most defaults of the Spark jobs (from Jobs on) are engineering values.
"""

import os
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from ipaddress import IPv4Address, IPv6Address
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr, field_validator, model_validator

from infra.clients import database_url, mqtt_broker
from infra.clients.mqtt_broker import MqttBroker
from infra.contract.messages import CHUNK_BYTES, CRASH_MAX_BYTES, MIN_CHUNK_BYTES, VEHICLE_CLASSES
from infra.settings.values import host_name

DB_URLS: Final = ("url", "ingest_url", "dashboard_url", "dispatch_url")
_PLACE: Final = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):(\d{1,5})")
_SPAN: Final = re.compile(r"(\d{1,2})-(\d{1,2})")
HOURS_A_DAY: Final = 24
APART_DAYS: Final = 2  # a rebuilt bucket needs all of the level below: a day and a chunk of windows

Classes = tuple[float, float, float]  # values for cars, vans and heavy vehicles


def _checked(check: Callable[[str], object]) -> AfterValidator:
    """A secret address that ``check`` takes, or none."""

    def secret(url: SecretStr) -> SecretStr:
        if url.get_secret_value():
            check(url.get_secret_value())
        return url

    return AfterValidator(secret)


NO_URL: Final = SecretStr("")
DatabaseUrl = Annotated[SecretStr, _checked(database_url.checked)]
BrokerUrl = Annotated[SecretStr, _checked(mqtt_broker.of_url)]


def setting(default: Any, meaning: str, **bounds: Any) -> Any:
    """A field with its meaning, which `odograph config` shows, and pydantic's bounds."""
    return Field(default, description=meaning, **bounds)


def _is_place(text: str) -> bool:
    """Whether it is host:port."""
    match = _PLACE.fullmatch(text)
    return match is not None and 1 <= int(match[1]) <= 65_535


def _host_names(text: str) -> str:
    for part in filter(None, map(str.strip, text.split(","))):
        if host_name(part, port=False) is None:
            raise ValueError(f"{part!r} is no host name or address (without scheme, port and *)")
    return text


HostNames = Annotated[str, AfterValidator(_host_names)]
"""``host[,host]``, as a browser's Host header has them without port."""


def _hour_spans(text: str) -> str:
    for span in text.split(","):
        found = _SPAN.fullmatch(span)
        if found is None or not int(found[1]) < int(found[2]) <= HOURS_A_DAY:
            raise ValueError(f"{span!r}: hours such as 9-16 are wanted, up to {HOURS_A_DAY}")
    return text


HourSpans = Annotated[str, AfterValidator(_hour_spans)]
"""Spans of hours, as 9-16,19-22: from the first hour to the begin of the last."""


def listed(names: HostNames) -> tuple[str, ...]:
    """The names one by one, lower case."""
    return tuple(host_name(part, port=False) or "" for part in map(str.strip, names.split(",")) if part)


def port(meaning: str = "port of /livez /readyz /metrics; 0: a free one, kept") -> Any:
    """A field for a port."""
    return setting(0, meaning, ge=0, le=65_535)


class Section(BaseModel):
    """Values that belong together: frozen; unknown keys and numbers that are none are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Paths(Section):
    """Where things lie."""

    home: Path = setting(Path(".odograph"), "data, logs and state of this checkout")
    cache: Path = setting(
        Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "odograph",
        "downloads shared by all checkouts of a user",
    )
    checkpoints: str = setting("", "checkpoints of the queries: folder or Hadoop URL; empty: in the home")
    lookups: str = setting("", "vehicles and roads: folder, or URL of maintenance; empty: in the home")

    @field_validator("home", "cache", mode="before")
    @classmethod
    def _named(cls, path: object) -> object:
        if path == "":
            raise ValueError("a folder is wanted, . for the working directory")
        return path

    @field_validator("checkpoints", "lookups")
    @classmethod
    def _place(cls, text: str) -> str:
        if "://" in text and re.fullmatch(r"[a-z][a-z0-9+.-]*://[^?#@]*/[^?#@]+", text) is None:
            raise ValueError("a folder, or a URL such as hdfs://host:port/folder, without a login, is wanted")
        return text.rstrip("/")

    def place(self, name: Literal["checkpoints", "lookups"]) -> str:
        """Where these lie: a URL, or the absolute path of a folder; by default of the home's."""
        given: str = getattr(self, name)
        return given if "://" in given else str((Path(given) if given else self.home / name).absolute())


class Mqtt(Section):
    """The MQTT broker."""

    url: BrokerUrl = setting(
        NO_URL, "external brokers, mqtt[s]://[user:password@]host[:port][,host[:port]]; empty: embedded"
    )
    ca_file: Path | None = setting(None, "authorities that mqtts:// trusts (PEM); none: those of the system")
    cert_file: Path | None = setting(None, "our certificate, where the broker asks for one (PEM)")
    key_file: Path | None = setting(None, "private key of our certificate (PEM, without a password, 0600)")
    device_port: int = port("port of the embedded broker for vehicles, if secure; 0: a free one, kept")
    port: int = port("port of the embedded Mosquitto; 0: a free one, kept")
    address: IPv4Address = setting(
        IPv4Address("127.0.0.1"), "where vehicles reach the embedded broker; beyond loopback only if secure"
    )
    hosts: HostNames = setting("", "more names and addresses, host[,host], under which vehicles reach it")
    max_queued_messages: int = setting(1_000_000, "messages the embedded broker holds for a bridge", ge=1)
    autosave_s: int = setting(30, "the embedded broker writes what it holds to disk this often, s", ge=1)
    max_message_bytes: int = setting(
        1 << 20, "a larger MQTT packet is refused, bytes", ge=2 * CRASH_MAX_BYTES, le=268_435_455
    )
    log_refused: bool = setting(
        True, "the secure broker logs refused publishes, for the audit log; each message is then 4 log lines"
    )
    root: str = setting("odograph/v1", "first levels of every topic")
    crash_chunk_bytes: int = setting(CHUNK_BYTES, "larger crashes go in parts, bytes", ge=MIN_CHUNK_BYTES)

    @field_validator("root")
    @classmethod
    def _root(cls, root: str) -> str:
        if not all(root.split("/")) or {"+", "#", "$", "\0"} & set(root):
            raise ValueError("levels of a topic, a / between them, without + # $ are wanted")
        return root

    @model_validator(mode="after")
    def _tls(self) -> Self:
        files = {"CA_FILE": self.ca_file, "CERT_FILE": self.cert_file, "KEY_FILE": self.key_file}
        given = [f"ODOGRAPH_MQTT_{name}" for name, path in files.items() if path is not None]
        brokers = self.brokers()
        if given and not (brokers and brokers[0].tls):
            raise ValueError(f"{' and '.join(given)}: for mqtts:// in ODOGRAPH_MQTT_URL only")
        if (self.cert_file is None) != (self.key_file is None):
            raise ValueError("ODOGRAPH_MQTT_CERT_FILE and ODOGRAPH_MQTT_KEY_FILE go together")
        if brokers and self.port:
            raise ValueError("ODOGRAPH_MQTT_PORT is the embedded broker's: it belongs into ODOGRAPH_MQTT_URL")
        return self

    def brokers(self) -> tuple[MqttBroker, ...]:
        """The external brokers; none: the embedded one."""
        url = self.url.get_secret_value()
        files = (self.ca_file, self.cert_file, self.key_file)
        ca, cert, key = ("" if path is None else str(path.absolute()) for path in files)
        found = mqtt_broker.of_url(url) if url else ()
        return tuple(replace(broker, ca_file=ca, cert_file=cert, key_file=key) for broker in found)


def _with_files(servers: str, ca: Path | None, certificate: Path | None) -> str:
    """An address of Kafka, as clients.kafka reads it."""
    text = f"{servers}?ca={ca.absolute()}" if ca else servers
    return f"{text}&cert={certificate.absolute()}" if certificate else text


class Kafka(Section):
    """The log."""

    bootstrap: str = setting("", "external Kafka, host:port[,host:port]; empty: the embedded one")
    ca_file: Path | None = setting(None, "authorities of an external Kafka (PEM); none: no TLS")
    cert_file: Path | None = setting(None, "our certificate and key, in one file (PEM, 0600)")
    port: int = port("port of the embedded Kafka; 0: a free one, kept")
    prefix: str = setting("odograph.", "put before every topic's name")
    heap_mb: int = setting(512, "heap of the embedded Kafka, MiB", ge=256)
    partitions: int = setting(4, "partitions of the topic telemetry when it is created", ge=1)
    replication_factor: int = setting(
        0, "copies of each topic; 0: 3, or one a broker where there are fewer", ge=0, le=32_767
    )
    min_insync: int = setting(
        0, "copies that have a record before it counts as stored; 0: one less than all, at least 1", ge=0
    )

    @field_validator("bootstrap")
    @classmethod
    def _bootstrap(cls, text: str) -> str:
        for place in text.split(",") if text else ():
            if not _is_place(place):
                raise ValueError("host:port[,host:port] is wanted, no scheme, user, password: no SASL")
        return text

    @field_validator("prefix")
    @classmethod
    def _prefix(cls, text: str) -> str:
        if re.fullmatch(r"[A-Za-z0-9._-]{0,150}", text) is None:
            raise ValueError("letters, digits and . _ - are what a topic's name may hold, 150 at most")
        return text

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.bootstrap and self.port:
            wrong = "ODOGRAPH_KAFKA_PORT is the embedded Kafka's"
            raise ValueError(f"{wrong}: put it into ODOGRAPH_KAFKA_BOOTSTRAP")
        if (self.ca_file and not self.bootstrap) or (self.cert_file and not self.ca_file):
            raise ValueError("ODOGRAPH_KAFKA_CERT_FILE needs _CA_FILE, and that ODOGRAPH_KAFKA_BOOTSTRAP")
        if 0 < self.replication_factor < self.min_insync:
            raise ValueError("ODOGRAPH_KAFKA_MIN_INSYNC is more than ODOGRAPH_KAFKA_REPLICATION_FACTOR")
        return self

    def address(self) -> str:
        """The external one with its files, as clients.kafka reads it; empty: the embedded one."""
        return _with_files(self.bootstrap, self.ca_file, self.cert_file)

    def copies(self, brokers: int) -> tuple[int, int]:
        """Copies of a topic in a cluster of so many brokers, and how many must have a record."""
        replicas = self.replication_factor or max(self.min_insync, min(3, brokers))
        return replicas, self.min_insync or max(1, replicas - 1)


class Db(Section):
    """TimescaleDB. Owner, dashboard and dispatch log in by themselves, and each program that writes."""

    url: DatabaseUrl = setting(
        NO_URL, "external TimescaleDB as the owner, postgresql://user:password@host/database; empty: embedded"
    )
    ingest_url: DatabaseUrl = setting(
        NO_URL, "one login for all programs that write, of odograph_ingest; empty: one each, made by `up`"
    )
    dashboard_url: DatabaseUrl = setting(NO_URL, "the dashboard's login, a member of odograph_dashboard")
    dispatch_url: DatabaseUrl = setting(NO_URL, "login for people's actions, a member of odograph_dispatch")
    port: int = port("port of the embedded PostgreSQL; 0: a free one, kept")

    @model_validator(mode="after")
    def _roles(self) -> Self:
        given = self.given()
        users = [database_url.login(url)[0] for url in given.values()]
        if len(set(users)) < len(users):
            names = "ODOGRAPH_DB_URL, _INGEST_URL, _DASHBOARD_URL, _DISPATCH_URL"
            raise ValueError(f"{names}: each with its own user")
        if given and self.port:
            raise ValueError("ODOGRAPH_DB_PORT is the embedded PostgreSQL's: it belongs into ODOGRAPH_DB_URL")
        return self

    def given(self) -> dict[str, str]:
        """The addresses that are set, by key; of several servers, one that takes writes."""
        urls = {key: url for key in DB_URLS if (url := getattr(self, key).get_secret_value())}
        return {key: database_url.to_primary(url, reads=key == "dashboard_url") for key, url in urls.items()}


def bridges(count: int) -> tuple[str, ...]:
    """The names of so many bridges' processes; one alone has no number."""
    return tuple(f"bridge-{number}" for number in range(1, count + 1)) if count > 1 else ("bridge",)


class Bridge(Section):
    """MQTT to Kafka."""

    client_id: str = setting("odograph-bridge", "stable MQTT client id: the broker's session hangs on it")
    user: str = setting("", "MQTT user name of the bridge; empty: anonymous")
    password_file: Path | None = setting(None, "file with its password, readable by its owner only")
    identity_property: str = setting("", "MQTT 5 user property with the sender's name; empty: none")
    http_port: int = port()
    guarantee: Literal["at-least-once", "at-most-once"] = setting(
        "at-least-once", "at-most-once: QoS 0, nothing doubled, what cannot be stored at once is lost"
    )
    shards: int = setting(1, "bridges sharing the fleet's slots; `odograph up` starts so many", ge=1, le=64)
    shard: int = setting(1, "this bridge's number: it names log and health port, nothing else", ge=1)
    max_in_flight: int = setting(20_000, "messages between MQTT and Kafka, at most", ge=1)
    max_in_flight_bytes: int = setting(64 << 20, "bytes between MQTT and Kafka, at most", ge=1 << 16)
    vehicle_rate: float = setting(200.0, "sustained messages/s of one vehicle and channel; 0: no limit", ge=0)
    vehicle_burst: int = setting(20_000, "messages that one vehicle may send at once", ge=1)
    crash_rate: float = setting(20.0, "sustained crash messages/s of one vehicle; 0: no limit", ge=0)
    crash_burst: int = setting(2000, "crash messages that one vehicle may send at once", ge=1)
    dead_letters_per_minute: int = setting(6000, "rejected messages that a lane keeps; 0: all", ge=0)
    drain_s: float = setting(10.0, "time to finish what is in flight after SIGTERM, s", gt=0)
    silent_s: float = setting(900.0, "an online vehicle that sends nothing for this long is silent, s", gt=0)

    @property
    def leased(self) -> bool:
        """Whether there are several, so that a slot is served by who has its lease."""
        return self.shards > 1

    @property
    def process(self) -> str:
        """The name of this bridge's process: of its pid file, its log and its port."""
        return bridges(self.shards)[self.shard - 1] if self.shard <= self.shards else f"bridge-{self.shard}"

    @model_validator(mode="after")
    def _login(self) -> Self:
        if self.password_file is not None and not self.user:
            raise ValueError("ODOGRAPH_BRIDGE_PASSWORD_FILE is without ODOGRAPH_BRIDGE_USER")
        return self


class Downlink(Section):
    """Kafka to vehicles and webhooks."""

    http_port: int = port()
    webhooks: Path | None = setting(None, "TOML file of webhooks that receive alerts; none: no webhooks")
    key_file: Path | None = setting(None, "Ed25519 key (PEM, 0600) signing the downlink; none: in the home")
    public_key_file: Path | None = setting(None, "its public key (PEM), for vehicles; none: in the home")


class Health(Section):
    """The health page of each program: /livez, /readyz, /metrics."""

    address: IPv4Address | IPv6Address = setting(
        IPv4Address("127.0.0.1"), "address it listens on; 0.0.0.0 or :: are all. It shows no secrets"
    )
    port: int = port("port of a program without a stack that has no port setting of its own; 0: a free one")
    hosts: HostNames = setting("", "more names, host[,host], under which it answers, beside IP addresses")


class Lease(Section):
    """Which process acts where several are the same: stream jobs, events, downlink, maintenance."""

    ttl_s: float = setting(5.0, "a holder that stalls for this long is succeeded by a standby, s", ge=1)
    holder: str = setting("", "name of this holder, different on each host; empty: host and home")


class Region(Section):
    """This region, where there are two: each with a Kafka of its own, over one database with a standby."""

    name: str = setting("", "this region's name; empty: there is one", pattern=r"^[A-Za-z0-9-]{0,20}$")
    other: str = setting("", "the other one's name and Kafka, NAME=host:port[,host:port]; empty: none")
    other_ca_file: Path | None = setting(None, "authorities of the other one's Kafka (PEM); none: no TLS")
    other_cert_file: Path | None = setting(None, "our certificate and key for it (PEM, 0600)")

    @model_validator(mode="after")
    def _two(self) -> Self:
        name, _, places = self.other.partition("=")
        wrong = not re.fullmatch(r"[A-Za-z0-9-]{1,20}", name) or name == self.name or not self.name
        if self.other and (wrong or not all(map(_is_place, places.split(",")))):
            raise ValueError(
                "ODOGRAPH_REGION_OTHER: NAME=host:port[,host:port], and ODOGRAPH_REGION_NAME another"
            )
        if self.other_cert_file and not self.other_ca_file:
            raise ValueError("ODOGRAPH_REGION_OTHER_CERT_FILE needs _CA_FILE")
        return self

    @property
    def other_name(self) -> str:
        return self.other.partition("=")[0]

    @property
    def other_kafka(self) -> str:
        return _with_files(self.other.partition("=")[2], self.other_ca_file, self.other_cert_file)


class Profile(Section):
    """Several of each on this machine, as on hosts of their own: `odograph cluster up`, which the home keeps.

    All 0 and one host: a stack of one machine.
    """

    kafka: int = setting(0, "Kafka brokers, beside one controller; 0: one node that is both", ge=0, le=9)
    mqtt: int = setting(0, "MQTT brokers; 0: one that may be secure", ge=0, le=9)
    postgres: int = setting(0, "2: a primary and a synchronous standby; 0: one", ge=0, le=2, multiple_of=2)
    workers: int = setting(0, "Spark workers, with master and HDFS; 0: jobs run in their process", ge=0, le=9)
    hosts: int = setting(1, "hosts; each beyond the first has hot standbys and a dashboard", ge=1, le=3)


class Watch(Section):
    """The process that measures all others, for the page Operations."""

    interval_s: float = setting(5.0, "pause between two measurements of every part, s", gt=0)
    slow_interval_s: float = setting(300.0, "pause between measurements of memory, disk, top keys, s", gt=0)
    parts: str = setting("", "health pages on other hosts, name=host:port[,...]; empty: this home's programs")
    hot_ratio: float = setting(4.0, "a partition is hot from this many times its topic's median lag on", gt=1)
    hot_records: int = setting(5000, "and only from this many waiting records on", ge=1)

    @field_validator("parts")
    @classmethod
    def _parts(cls, text: str) -> str:
        for part in text.split(",") if text else ():
            name, _, place = part.partition("=")
            if re.fullmatch(r"[a-z]+(-\d+)?", name) is None or not _is_place(place):
                raise ValueError(f"{part!r}: name=host:port is wanted, as bridge-1=10.0.0.5:8080")
        return text

    def places(self) -> dict[str, str]:
        """``parts``: host and port of each health page, by the part's name."""
        return dict(part.split("=") for part in self.parts.split(",")) if self.parts else {}


class Dashboard(Section):
    """The web page."""

    port: int = port("port; 0: a free one, kept")
    refresh_s: float = setting(2.0, "interval of the live parts, s", gt=0)
    strained_share: float = setting(0.8, "from this load on a part is shown as strained; 1: full", gt=0)
    address: IPv4Address = setting(
        IPv4Address("127.0.0.1"), "address it listens on; any but loopback asks for ODOGRAPH_DASHBOARD_OIDC"
    )
    hosts: HostNames = setting("", "more host names, host[,host], under which it answers; any other gets 403")
    redirect_port: int = setting(0, "with TLS: port that leads plain http to https; 0: none", ge=0, le=65_535)
    oidc: Path | None = setting(None, "TOML file for OpenID Connect, [auth] and [roles]; none: local only")
    basemap: str = setting("", "ground of maps: URL of a MapLibre style or .pmtiles file; empty: coast lines")


class Jobs(Section):
    """The Spark jobs."""

    master: str = setting(
        "local[4]", "Spark master of `jobs stream`; local[N]: a slot for each task of telemetry and archive"
    )
    trigger_s: float = setting(2.0, "trigger of the query telemetry, s", gt=0)
    publish_s: float = setting(5.0, "an open window is written at most this often; 0: each batch, s", ge=0)
    archive_trigger_s: float = setting(10.0, "trigger of the archive query, s", gt=0)
    repair_interval_s: float = setting(20.0, "pause between two repairs of late windows, s", gt=0)
    rollup_interval_s: float = setting(30.0, "pause between two roll-ups to minutes, hours and days, s", gt=0)
    trend_interval_s: float = setting(30.0, "pause between two trend passes over 50 vehicles, s", gt=0)
    window_s: int = setting(10, "vehicle window, s", ge=1)
    road_window_s: int = setting(60, "road-cell window, s", ge=1)
    lateness_s: int = setting(30, "a frame received later than this after its first sample is late, s", ge=1)
    ahead_s: int = setting(10, "a frame stamped further ahead of its receipt is quarantined, s", ge=1)
    clock_floor: date = setting(date(2015, 1, 1), "an earlier device clock was never set: quarantined")
    max_offsets: int = setting(100_000, "records a micro-batch takes at most", ge=1)
    clock_s: float = setting(15.0, "without a record for so long wall time drives timers; 0: never, s", ge=0)
    instant_master: str = setting(
        "", "Spark master of `jobs instant`; empty: local, a core for each partition it reads"
    )
    shuffle_partitions: int = setting(2, "tasks of the telemetry state; a checkpoint keeps its number", ge=1)
    environment: str = setting(
        "", "workers' environment on a cluster (odograph jobs package): path or URL; empty: as the driver's"
    )
    environment_cache: str = setting(
        "", "where a worker's host keeps it unpacked: a folder, as seen from an executor's; empty: that one"
    )
    driver_mb: int = setting(2048, "memory of the driver of `jobs stream`, MiB", ge=512)
    instant_mb: int = setting(1024, "memory of the driver of `jobs instant`, MiB", ge=512)
    java_options: str = setting("", "more options of the Spark JVMs, as -XX:TieredStopAtLevel=4")
    instant_trigger_s: float = setting(60.0, "checkpoint interval of the real-time query of frames, s", ge=5)
    crash_trigger_s: float = setting(600.0, "the same of the query of crash records, s", ge=5)
    rules: Path | None = setting(None, "alert rules file; none: the one that ships")
    evidence_interval_s: float = setting(15.0, "pause between two collections of alert frames, s", gt=0)
    evidence_days: int = setting(30, "how long the frames around alerts are kept, days", ge=1)
    backtest_late_h: int = setting(6, "a backtest reads frames received this long after its span, h", ge=0)
    sql_dir: Path | None = setting(None, "folder of users' queries on the stream, *.sql; none: none")

    vehicle_buckets: int = setting(2, "groups of vehicles in the telemetry state", ge=1, le=1024)
    reorder_buffer_frames: int = setting(600, "frames of a vehicle that may wait for a missing one", ge=1)
    receipt_skew_s: int = setting(5, "receive-time skew of partitions that timers allow for, s", ge=0)
    state_ttl_h: int = setting(168, "state of a vehicle that sends nothing expires after this, h", ge=1)

    @property
    def unwritten_ms(self) -> int:
        """How long what the query telemetry has taken in may wait until it is written, by receipt."""
        return int((self.publish_s + self.receipt_skew_s) * 1000) if self.publish_s else 0


class Roads(Section):
    """Traffic by road cell and edge."""

    edges: bool = setting(True, "windows by edge too, where a road network is loaded")
    network: str = setting("", "name of the road network in use; empty: the one loaded last")
    match_radius_m: float = setting(40.0, "greatest distance of a sample from its edge, m", gt=0)
    match_angle_deg: float = setting(60.0, "greatest angle between course and edge, deg", gt=0, lt=90)
    match_sigma_m: float = setting(8.0, "distance that weighs as much as match_sigma_deg, m", gt=0)
    match_sigma_deg: float = setting(20.0, "angle that weighs as much as match_sigma_m, deg", gt=0)
    match_margin: float = setting(0.1, "least lead of the best edge over the next, squared sigmas", ge=0)
    min_vehicles: int = setting(3, "vehicles in 5 min a live speed needs; with fewer: the usual one", ge=1)
    off_peak_weekday: HourSpans = setting("9-16,19-22", "free-flow hours on weekdays, local time")
    off_peak_weekend: HourSpans = setting("6-22", "free-flow hours at weekends, local time")
    history_days: int = setting(28, "history of free flow and usual speeds, days", ge=1)
    history_s: float = setting(600.0, "interval of computing free flow and usual speeds, s", gt=0)
    free_flow_intervals: int = setting(12, "5-minute intervals a free-flow speed needs", ge=1)
    small_count: int = setting(5, "flows and stops of fewer vehicles are hidden, counts rounded to it", ge=1)
    eta_s: float = setting(60.0, "interval of predicting open arrival-time requests, s", gt=0)
    eta_few: float = setting(3.0, "vehicles on an edge that weigh as much as its usual speed", ge=0)
    eta_half_life_s: float = setting(900.0, "half-life of the weight of an observation, s", gt=0)
    eta_limit_share: float = setting(0.7, "share of the limit assumed where no speed is known", gt=0, le=1)
    eta_hours: float = setting(6.0, "a request expires after this time, h", gt=0)
    arrival_m: float = setting(100.0, "a vehicle this near its destination has arrived, m", gt=0)
    trip_end_m: float = setting(250.0, "a trip that ends this near has reached it, m", gt=0)


class Journeys(Section):
    """Trips, stops, idling and harsh driving: engineering defaults."""

    brake_g: Classes = setting((0.40, 0.35, 0.30), "harsh braking, g: car, van, heavy")
    accelerate_g: Classes = setting((0.35, 0.30, 0.25), "harsh acceleration, g: car, van, heavy")
    corner_g: Classes = setting((0.40, 0.35, 0.30), "harsh cornering, g: car, van, heavy")
    harsh_gate_kmh: float = setting(10.0, "no harsh braking or acceleration up to this speed, km/h", ge=0)
    corner_gate_kmh: float = setting(30.0, "no harsh cornering up to this speed, km/h", ge=0)
    harsh_least_ms: int = setting(300, "minimum duration of a harsh event, ms", ge=0)
    harsh_merge_ms: int = setting(3000, "harsh events closer than this are one, ms", ge=0)
    harsh_grades: tuple[float, float] = setting((1.25, 1.5), "grades 2 and 3, multiples of the threshold")
    radius_m: float = setting(200.0, "a trip starts beyond this radius, a stop is within it, m", gt=0)
    end_s: int = setting(180, "standing this long within the radius ends a trip, s", ge=1)
    split_s: int = setting(3600, "a longer gap in the data splits a trip, s", ge=1)
    ignition_off_s: int = setting(30, "standing this long with the ignition off ends a trip, s", ge=1)
    least_move_m: float = setting(5.0, "a shorter move from standstill does not count, m", ge=0)
    halt_s: int = setting(5, "a standstill within a trip that counts as a halt, s", ge=1)
    idle_s: int = setting(120, "standing this long with the ignition on is idling, s", ge=1)
    report_s: int = setting(60, "interval of reports of a trip under way, s", ge=1)
    consumption_from_m: float = setting(1000.0, "no consumption per 100 km below this, m", gt=0)
    noise_m: float = setting(25.0, "a smaller displacement is noise where only positions are known, m", ge=0)
    top_kmh: float = setting(250.0, "a faster displacement is a jump of the position, km/h", gt=0)
    co2_g_per_l: tuple[float, float] = setting((2348.0, 2689.0), "CO2 of petrol and diesel, g/l")


class Crash(Section):
    """Crash records corroborated by the telemetry around them."""

    pulse_ms: float = setting(20, "least time from 0.1 to 0.9 of a collision's delta-V, ms (eng.)", ge=0)
    kept_share: float = setting(0.5, "least share of delta-V left at the end (eng.)", ge=0, le=1)
    driving_kmh: float = setting(10, "a collapse of speed is judged from this speed on, km/h", ge=0)
    collapse_share: float = setting(0.3, "collapsed to this share of the speed before (eng.)", ge=0, le=1)
    still_from_s: int = setting(30, "begin of the required standstill, after the event, s", ge=0)
    still_to_s: int = setting(60, "end of the required standstill and time of the verdict, s", ge=10)
    still_m: float = setting(5, "greatest movement during that standstill, m (eng.)", ge=0)
    near_m: float = setting(200, "radius within which other vehicles count, m", gt=0)
    others: int = setting(3, "other vehicles needed both before and after", ge=1)
    slowed_share: float = setting(0.7, "slowed to this share of the speed before (eng.)", ge=0, le=1)
    settle_s: float = setting(5, "pause between two searches for records without a verdict, s", gt=0)
    device_ca_file: Path | None = setting(
        None, "authority that devices sign by (PEM), revoked.json beside it; none: in the home"
    )
    key_file: Path | None = setting(None, "Ed25519 key (PEM, 0600) signing custody; none: in the home")
    public_key_file: Path | None = setting(None, "its public key (PEM), to verify custody; none: in the home")
    pseudonym_key_file: Path | None = setting(
        None, "HMAC key (text, 0600) of vehicles' pseudonyms in exports; none: in the home"
    )
    anchor_s: float = setting(60, "pause between two signed heads of custody and audit log, s", gt=0)
    tsa_url: str = setting("", "time-stamp authority (RFC 3161), http[s]://...; empty: the home's own")
    tsa_ca_file: Path | None = setting(None, "certificates by which time stamps are verified (PEM)")

    @model_validator(mode="after")
    def _stamps(self) -> Self:
        if (self.tsa_ca_file is None) != (not self.tsa_url):
            raise ValueError("ODOGRAPH_CRASH_TSA_URL and ODOGRAPH_CRASH_TSA_CA_FILE go together")
        if self.tsa_url and not self.tsa_url.startswith(("http://", "https://")):
            raise ValueError("ODOGRAPH_CRASH_TSA_URL: http:// or https:// is wanted")
        return self


class Cohort(Section):
    """A vehicle against its like: engineering defaults."""

    metrics: Path | None = setting(None, "metrics that are compared; none: those that ship")
    interval_s: float = setting(20.0, "pause between two searches for closed buckets, s", gt=0)
    bucket_min: int = setting(5, "length of the time compared, a divisor of an hour, min", ge=1, le=60)
    least_others: int = setting(5, "peers a cohort needs; with fewer: those of the last hour, or none", ge=2)
    load_edges_pct: tuple[float, ...] = setting((20.0, 40.0, 60.0), "upper ends of engine-load bands, %")
    ambient_step_c: int = setting(10, "width of a cohort's bands of ambient temperature, degC", ge=1)
    keep_z: float = setting(2.0, "residuals of this robust z or more are stored; 0: all of them", ge=0)
    kept_days: int = setting(14, "how long residuals are kept and compared, days", ge=1)
    gap_min: int = setting(60, "an alert ends after this time without a comparison, min", ge=1)

    @field_validator("bucket_min")
    @classmethod
    def _fits_an_hour(cls, minutes: int) -> int:
        if 60 % minutes:
            fits = ", ".join(str(n) for n in range(1, 61) if 60 % n == 0)
            raise ValueError(f"{minutes} min do not fit into an hour: {fits}")
        return minutes


class Recompute(Section):
    """Windows, journeys and alerts made anew from the archive: engineering defaults."""

    hour_utc: int = setting(2, "hour of the nightly recomputation of late data, UTC; -1: never", ge=-1, le=23)
    poll_interval_s: float = setting(60.0, "pause between two checks whether it is due, s", gt=0)
    slice_min: int = setting(10, "event time rewritten in one transaction, min", ge=1, le=1440)
    lead_h: int = setting(1, "warm-up of stateful rules before a span, h", ge=0)
    late_h: int = setting(24, "frames are searched for up to this long after their time, h", ge=0)
    parts: int = setting(8, "groups of vehicles processed in turn: more groups, less memory", ge=1)
    transaction_timeout_s: float = setting(120.0, "time limit of one transaction, s", gt=0)
    history_s: float = setting(300.0, "pause between two reads of history for the live jobs, s", gt=0)
    history_days: int = setting(28, "usual values are medians over this time, days", ge=1)
    history_hours: int = setting(5, "hours of a vehicle a usual value needs", ge=1)
    driver_mb: int = setting(1536, "memory of the driver of `odograph recompute`, MiB", ge=512)


class Archive(Section):
    """The master data set: upkeep, retention, and a second place."""

    writers: int = setting(1, "tasks that write a batch's files, one each; on a cluster more", ge=1)
    keep_days: int = setting(0, "records expire this long after receipt; 0: never, days", ge=0)
    pack_mb: int = setting(128, "size of packed files, MiB", ge=1)
    pack_after_min: int = setting(90, "an hour is packed this long after its end, min", ge=0)
    grace_min: int = setting(30, "replaced and expired files stay readable for this time, min", ge=0)
    url: str = setting("", "Hadoop URL of a second archive, as hdfs://host:port/odograph; empty: none")
    upkeep_s: float = setting(300.0, "pause between two searches for hours to pack or expire, s", gt=0)


class Ledger(Section):
    """The conservation ledger by hour."""

    interval_s: float = setting(300.0, "pause between two audits of the hours that changed, s", gt=0)
    hours: int = setting(48, "hours that are audited again when late frames come, at most", ge=1)


class Overload(Section):
    """When the fleet sends more than the stream carries: whose telemetry goes to the archive only."""

    classes: str = setting("", "classes whose telemetry may be deferred, car[,van][,heavy]; empty: none")
    lag_records: int = setting(200_000, "deferral begins when so many records wait for query telemetry", ge=1)
    grow_s: float = setting(30.0, "and their number has grown for this long, s", gt=0)
    calm_records: int = setting(10_000, "deferral ends when no more than this many records wait", ge=0)
    least_s: float = setting(120.0, "and not before it has lasted this long, s", ge=0)
    show_every_s: float = setting(60.0, "a deferred vehicle still gets a frame through this often, s", gt=0)

    @field_validator("classes")
    @classmethod
    def _known(cls, text: str) -> str:
        names = [name.strip() for name in text.split(",") if name.strip()]
        if unknown := [name for name in names if name not in VEHICLE_CLASSES]:
            raise ValueError(f"{unknown[0]!r} is none of {', '.join(VEHICLE_CLASSES)}")
        return ",".join(dict.fromkeys(names))


class Retention(Section):
    """How long tables are kept; whole chunks go, so up to a chunk longer."""

    windows_days: int = setting(90, "10 s windows, late and quarantined frames, days; 0: for ever", ge=0)
    roads_days: int = setting(90, "windows and 5-minute intervals of roads, days; 0: for ever", ge=0)
    minutes_days: int = setting(400, "minutes of vehicles, days; 0: for ever", ge=0)
    hours_days: int = setting(1830, "hours of vehicles, days; 0: for ever", ge=0)
    days_days: int = setting(0, "days of vehicles, days; 0: for ever", ge=0)
    progress_days: int = setting(30, "progress of the streaming queries, days; 0: for ever", ge=0)
    watch_days: int = setting(7, "measurements of the watch, days; 0: for ever", ge=0)
    interval_s: float = setting(3600.0, "pause between two deletions, s", gt=0)

    @model_validator(mode="after")
    def _longer_above(self) -> Self:
        for below, above in pairwise(("windows_days", "minutes_days", "hours_days", "days_days")):
            low, high = getattr(self, below), getattr(self, above)
            if high and (not low or high < low + APART_DAYS):
                under = f"{below} ({low or 'for ever'})"
                raise ValueError(f"{above} {high}: 0, or {APART_DAYS} days or more above {under}")
        return self

    def days_by_table(self) -> dict[str, int]:
        """Days that each table of odograph.retention is kept; 0: for ever."""
        roads = ("road_cell_window", "road_edge_window", "road_cell_interval", "road_edge_interval")
        vehicles = {"vehicle_window": self.windows_days, "vehicle_minute": self.minutes_days,
                    "vehicle_hour": self.hours_days, "vehicle_day": self.days_days}  # fmt: skip
        watch = {"query_progress": self.progress_days, "stage_sample": self.watch_days,
                 "storage_sample": self.progress_days}  # fmt: skip
        return vehicles | dict.fromkeys(roads, self.roads_days) | watch
