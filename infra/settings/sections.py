"""The sections of the settings: one class each, with what every value means."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from ipaddress import IPv4Address
from pathlib import Path
from typing import Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator, model_validator

from infra.clients import database_url, mqtt_broker
from infra.clients.mqtt_broker import MqttBroker
from infra.contract.crash_parts import CHUNK_BYTES, CRASH_MAX_BYTES, MIN_CHUNK_BYTES
from infra.settings.hosts import host_name

DB_URLS: Final = ("url", "ingest_url", "dashboard_url", "dispatch_url")
_PLACE: Final = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):(\d{1,5})")


class Section(BaseModel):
    """Values that belong together: frozen, and no other key is taken."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Paths(Section):
    """Where things lie."""

    home: Path = Field(Path(".odograph"), description="data, logs and state of this checkout")
    cache: Path = Field(
        Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "odograph",
        description="downloads shared by all checkouts of a user",
    )


class Mqtt(Section):
    """The MQTT broker."""

    url: SecretStr = Field(
        SecretStr(""),
        description="external broker, mqtt[s]://[user:password@]host[:port]; empty: the embedded Mosquitto",
    )
    ca_file: Path | None = Field(
        None, description="authorities that mqtts:// trusts (PEM); none: those of the system"
    )
    cert_file: Path | None = Field(None, description="our certificate, where the broker asks for one (PEM)")
    key_file: Path | None = Field(None, description="its private key (PEM, without a password, 0600)")
    port: int = Field(0, ge=0, le=65535, description="port of the embedded Mosquitto; 0: a free one, kept")
    max_queued_messages: int = Field(
        1_000_000, ge=1, description="messages the embedded broker holds for a bridge that is away, at most"
    )
    autosave_s: int = Field(30, ge=1, description="the embedded broker writes what it holds to disk every s")
    max_message_bytes: int = Field(
        1 << 20,
        ge=2 * CRASH_MAX_BYTES,
        le=268_435_455,
        description="a larger MQTT packet is refused by the embedded broker, held by no bridge, bytes",
    )
    root: str = Field("odograph/v1", description="first levels of every topic")
    crash_chunk_bytes: int = Field(
        CHUNK_BYTES, ge=MIN_CHUNK_BYTES, description="a crash record of more JSON than this is sent in parts"
    )

    @field_validator("url")
    @classmethod
    def _url(cls, url: SecretStr) -> SecretStr:
        if url.get_secret_value():
            mqtt_broker.of_url(url.get_secret_value())
        return url

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
        broker = self.broker()
        if given and not (broker and broker.tls):
            raise ValueError(f"{' and '.join(given)}: for mqtts:// in ODOGRAPH_MQTT_URL only")
        if (self.cert_file is None) != (self.key_file is None):
            raise ValueError("ODOGRAPH_MQTT_CERT_FILE and ODOGRAPH_MQTT_KEY_FILE go together")
        if broker and self.port:
            raise ValueError("ODOGRAPH_MQTT_PORT is the embedded broker's: it belongs into ODOGRAPH_MQTT_URL")
        return self

    def broker(self) -> MqttBroker | None:
        """The external broker; None: the embedded one."""
        url = self.url.get_secret_value()
        files = (self.ca_file, self.cert_file, self.key_file)
        ca, cert, key = ("" if path is None else str(path.absolute()) for path in files)
        return replace(mqtt_broker.of_url(url), ca_file=ca, cert_file=cert, key_file=key) if url else None


class Kafka(Section):
    """The log."""

    bootstrap: str = Field("", description="external Kafka, host:port[,host:port]; empty: the embedded one")
    port: int = Field(0, ge=0, le=65535, description="port of the embedded Kafka; 0: a free one, kept")
    prefix: str = Field("odograph.", description="put before every topic's name")
    heap_mb: int = Field(768, ge=256, description="heap of the embedded Kafka, MiB")

    @field_validator("bootstrap")
    @classmethod
    def _bootstrap(cls, text: str) -> str:
        for place in text.split(",") if text else ():
            match = _PLACE.fullmatch(place)
            if match is None or not 1 <= int(match[1]) <= 65_535:
                raise ValueError(
                    "host:port[,host:port] is wanted, no scheme, no user and no password: Kafka is spoken "
                    "without TLS and SASL"
                )
        return text

    @field_validator("prefix")
    @classmethod
    def _prefix(cls, text: str) -> str:
        if re.fullmatch(r"[A-Za-z0-9._-]{0,150}", text) is None:
            raise ValueError("letters, digits and . _ - are what a topic's name may hold, 150 at most")
        return text

    @model_validator(mode="after")
    def _port(self) -> Self:
        if self.bootstrap and self.port:
            raise ValueError(
                "ODOGRAPH_KAFKA_PORT is the embedded Kafka's: put the port into ODOGRAPH_KAFKA_BOOTSTRAP"
            )
        return self


class Db(Section):
    """TimescaleDB. Each role logs in by itself: owner, ingest, dashboard, dispatch."""

    url: SecretStr = Field(
        SecretStr(""),
        description="external TimescaleDB as the owner, postgresql://user:password@host/database; "
        "empty: the embedded one",
    )
    ingest_url: SecretStr = Field(
        SecretStr(""),
        description="the same as a member of odograph_ingest; empty: `odograph up` makes that role",
    )
    dashboard_url: SecretStr = Field(SecretStr(""), description="as a member of odograph_dashboard, likewise")
    dispatch_url: SecretStr = Field(SecretStr(""), description="as a member of odograph_dispatch, likewise")
    port: int = Field(0, ge=0, le=65535, description="port of the embedded PostgreSQL; 0: a free one, kept")

    @field_validator("url", "ingest_url", "dashboard_url", "dispatch_url")
    @classmethod
    def _libpq(cls, url: SecretStr) -> SecretStr:
        if url.get_secret_value():
            database_url.checked(url.get_secret_value())
        return url

    @model_validator(mode="after")
    def _roles(self) -> Self:
        given = self.given()
        if given and "url" not in given:
            names = ", ".join(f"ODOGRAPH_DB_{key}".upper() for key in given)
            raise ValueError(f"{names}: ODOGRAPH_DB_URL, the owner's, is missing")
        users = [database_url.user(url) for url in given.values()]
        if len(set(users)) < len(users):
            raise ValueError(
                "ODOGRAPH_DB_URL, _INGEST_URL, _DASHBOARD_URL, _DISPATCH_URL: each with its own user"
            )
        if given and self.port:
            raise ValueError("ODOGRAPH_DB_PORT is the embedded PostgreSQL's: it belongs into ODOGRAPH_DB_URL")
        return self

    def given(self) -> dict[str, str]:
        """The addresses that are set, by key."""
        urls = {key: getattr(self, key).get_secret_value() for key in DB_URLS}
        return {key: url for key, url in urls.items() if url}


class Bridge(Section):
    """MQTT to Kafka."""

    client_id: str = Field(
        "odograph-bridge", description="stable MQTT client id: the broker's session hangs on it"
    )
    user: str = Field("", description="MQTT user name of the bridge; empty: anonymous")
    password_file: Path | None = Field(None, description="file with its password, readable by its owner only")
    identity_property: str = Field("", description="MQTT 5 user property with the sender's name; empty: none")
    http_port: int = Field(
        0, ge=0, le=65535, description="port of /livez /readyz /metrics; 0: a free one, kept"
    )
    guarantee: Literal["at-least-once", "at-most-once"] = Field(
        "at-least-once",
        description="at-most-once: QoS 0, nothing doubled, what cannot be stored at once is lost",
    )
    shard: str = Field("1/1", pattern=r"^\d+/\d+$", description="share of the fleet this bridge carries, i/n")
    shards: int = Field(1, ge=1, le=16, description="bridges that `odograph up` starts, each with its share")
    max_in_flight: int = Field(20_000, ge=1, description="messages between MQTT and Kafka, at most")
    max_in_flight_bytes: int = Field(
        64 << 20, ge=1 << 16, description="bytes between MQTT and Kafka, at most"
    )
    vehicle_rate: float = Field(
        200.0, ge=0, description="messages/s that one vehicle may send for long on a channel; 0: no limit"
    )
    vehicle_burst: int = Field(
        20_000, ge=1, description="messages that one vehicle may send at once: what it stored without radio"
    )
    crash_rate: float = Field(
        20.0, ge=0, description="crash messages/s that one vehicle may send for long; 0: no limit"
    )
    crash_burst: int = Field(2000, ge=1, description="crash messages that one vehicle may send at once")
    dead_letters_per_minute: int = Field(
        6000, ge=0, description="rejected messages kept by a lane, more are counted only; 0: all are kept"
    )
    drain_s: float = Field(10.0, gt=0, description="time to finish what is in flight after SIGTERM, s")
    silent_s: float = Field(
        900.0, gt=0, description="an online vehicle that sends nothing for so long is called silent, s"
    )

    @model_validator(mode="after")
    def _login(self) -> Self:
        if self.password_file is not None and not self.user:
            raise ValueError("ODOGRAPH_BRIDGE_PASSWORD_FILE is without ODOGRAPH_BRIDGE_USER")
        return self


class Downlink(Section):
    """Kafka to vehicles and webhooks."""

    http_port: int = Field(
        0, ge=0, le=65535, description="port of /livez /readyz /metrics; 0: a free one, kept"
    )
    webhooks: Path | None = Field(None, description="TOML file of webhooks that are told alerts; none: none")
    key_file: Path | None = Field(
        None,
        description="Ed25519 private key (PEM, 0600) that signs what vehicles are told; none: in the home",
    )
    public_key_file: Path | None = Field(
        None, description="its public key (PEM), with which vehicles check that; none: in the home"
    )


class Jobs(Section):
    """The Spark jobs."""

    master: str = Field("local[2]", description="Spark master of the micro-batch application")
    trigger_s: float = Field(2.0, gt=0, description="trigger of the query telemetry, s")
    publish_s: float = Field(
        0.0, ge=0, description="a changing open window is written at most once in so long; 0: each batch, s"
    )
    archive_trigger_s: float = Field(10.0, gt=0, description="trigger of the archive query, s")
    repair_interval_s: float = Field(20.0, gt=0, description="pause between two repairs of late windows, s")
    rollup_interval_s: float = Field(
        10.0, gt=0, description="pause between two roll-ups to minutes, hours and days, s"
    )
    trend_interval_s: float = Field(
        30.0, gt=0, description="pause between two passes over the trends of 50 vehicles, s"
    )
    window_s: int = Field(10, ge=1, description="vehicle window, s")
    road_window_s: int = Field(60, ge=1, description="road-cell window, s")
    lateness_s: int = Field(
        30, ge=1, description="a frame received later than this after its first sample is late, s"
    )
    ahead_s: int = Field(
        10, ge=1, description="a frame stamped further ahead of its receipt is quarantined, s"
    )
    clock_floor: str = Field(
        "2015-01-01", description="a device clock before this day was never set: quarantined"
    )
    max_offsets: int = Field(100_000, ge=1, description="records a micro-batch takes at most")
    driver_mb: int = Field(2048, ge=512, description="memory of the micro-batch driver, MiB")
    instant_mb: int = Field(1024, ge=512, description="memory of the real-time driver, MiB")
    java_options: str = Field(
        "", description="more options of the Spark applications' Java machines, as -XX:TieredStopAtLevel=4"
    )
    instant_trigger_s: float = Field(
        60.0, ge=5, description="checkpoint interval of the real-time query of frames, s"
    )
    crash_trigger_s: float = Field(600.0, ge=5, description="checkpoint interval of that of crash records, s")
    rules: Path | None = Field(None, description="alert rules file; none: the one that ships")
    evidence_interval_s: float = Field(
        15.0, gt=0, description="pause between two collections of the frames around alerts, s"
    )
    evidence_days: int = Field(30, ge=1, description="how long the frames around alerts are kept, days")
    rehearse_late_h: int = Field(
        6, ge=0, description="a rehearsal looks for frames that came up to so long after its span, h"
    )
    sql_dir: Path | None = Field(
        None, description="folder of users' queries on the stream, *.sql; none: none"
    )

    vehicle_buckets: int = Field(
        2,
        ge=1,
        le=1024,
        description="groups of vehicles in the state of the query telemetry; kept by its checkpoint",
    )
    hold_frames: int = Field(
        600, ge=1, description="frames of a vehicle that wait for a missing one before them, at most"
    )
    receipt_skew_s: int = Field(
        5, ge=0, description="how far partitions may lie apart in receive time before timers run, s"
    )
    forget_h: int = Field(
        168, ge=1, description="the memory of a vehicle that sent nothing for so long goes, hours"
    )

    @property
    def unwritten_ms(self) -> int:
        """How long what the query telemetry has taken in may wait until it is written, by receipt."""
        return int((self.publish_s + self.receipt_skew_s) * 1000) if self.publish_s else 0


class Watch(Section):
    """The process that measures all others, for the page Operations."""

    interval_s: float = Field(5.0, gt=0, description="pause between two looks at every part, s")
    slow_interval_s: float = Field(
        300.0, gt=0, description="pause between two looks at memory and at what lies on the disk, s"
    )


class Dashboard(Section):
    """The web page."""

    port: int = Field(0, ge=0, le=65535, description="port; 0: a free one, kept")
    refresh_s: float = Field(2.0, gt=0, description="interval of the live parts, s")
    strained_share: float = Field(
        0.8, gt=0, description="a part that is so full, or so long at a batch, is shown as strained; 1: full"
    )
    address: IPv4Address = Field(
        IPv4Address("127.0.0.1"),
        description="address it listens on; any but loopback asks for ODOGRAPH_DASHBOARD_OIDC",
    )
    hosts: str = Field(
        "",
        description="host names, host[,host], under which it answers besides loopback's, its address and "
        "that of signing in; requests for any other get 403",
    )
    oidc: Path | None = Field(
        None, description="TOML file for signing in by OpenID Connect: [auth], [roles]; none: local only"
    )

    @property
    def host_names(self) -> tuple[str, ...]:
        """``hosts`` one by one, as a browser's Host header has them without port."""
        names = (host_name(part.strip(), port=False) for part in self.hosts.split(",") if part.strip())
        return tuple(name for name in names if name is not None)

    @field_validator("hosts")
    @classmethod
    def _are_hosts(cls, value: str) -> str:
        for part in filter(None, map(str.strip, value.split(","))):
            if host_name(part, port=False) is None:
                raise ValueError(f"{part!r} is no host name or address (without scheme, port and *)")
        return value
