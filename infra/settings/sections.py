"""The sections of the settings for services and processes: one class each, every value with its meaning."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator, model_validator

from infra.clients import database_url, mqtt_broker
from infra.clients.mqtt_broker import MqttBroker
from infra.contract.messages import CHUNK_BYTES, CRASH_MAX_BYTES, MIN_CHUNK_BYTES
from infra.settings.values import host_name

DB_URLS: Final = ("url", "ingest_url", "dashboard_url", "dispatch_url")
_PLACE: Final = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):(\d{1,5})")


def setting(default: Any, meaning: str, **bounds: Any) -> Any:
    """A field with its meaning, which `odograph config` shows, and pydantic's bounds."""
    return Field(default, description=meaning, **bounds)


class Section(BaseModel):
    """Values that belong together: frozen, unknown keys are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Paths(Section):
    """Where things lie."""

    home: Path = setting(Path(".odograph"), "data, logs and state of this checkout")
    cache: Path = setting(
        Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "odograph",
        "downloads shared by all checkouts of a user",
    )


class Mqtt(Section):
    """The MQTT broker."""

    url: SecretStr = setting(
        SecretStr(""), "external broker, mqtt[s]://[user:password@]host[:port]; empty: the embedded Mosquitto"
    )
    ca_file: Path | None = setting(None, "authorities that mqtts:// trusts (PEM); none: those of the system")
    cert_file: Path | None = setting(None, "our certificate, where the broker asks for one (PEM)")
    key_file: Path | None = setting(None, "its private key (PEM, without a password, 0600)")
    port: int = setting(0, "port of the embedded Mosquitto; 0: a free one, kept", ge=0, le=65535)
    max_queued_messages: int = setting(1_000_000, "messages the embedded broker holds for a bridge", ge=1)
    autosave_s: int = setting(30, "the embedded broker writes what it holds to disk every s", ge=1)
    max_message_bytes: int = setting(
        1 << 20, "a larger MQTT packet is refused, bytes", ge=2 * CRASH_MAX_BYTES, le=268_435_455
    )
    root: str = setting("odograph/v1", "first levels of every topic")
    crash_chunk_bytes: int = setting(
        CHUNK_BYTES, "larger crash records go in parts, bytes", ge=MIN_CHUNK_BYTES
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

    bootstrap: str = setting("", "external Kafka, host:port[,host:port]; empty: the embedded one")
    port: int = setting(0, "port of the embedded Kafka; 0: a free one, kept", ge=0, le=65535)
    prefix: str = setting("odograph.", "put before every topic's name")
    heap_mb: int = setting(768, "heap of the embedded Kafka, MiB", ge=256)

    @field_validator("bootstrap")
    @classmethod
    def _bootstrap(cls, text: str) -> str:
        for place in text.split(",") if text else ():
            match = _PLACE.fullmatch(place)
            if match is None or not 1 <= int(match[1]) <= 65_535:
                raise ValueError(
                    "host:port[,host:port] is wanted, no scheme, user or password: no TLS, no SASL"
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
                "ODOGRAPH_KAFKA_PORT is the embedded Kafka's: put it into ODOGRAPH_KAFKA_BOOTSTRAP"
            )
        return self


class Db(Section):
    """TimescaleDB. Each role logs in by itself: owner, ingest, dashboard, dispatch."""

    url: SecretStr = setting(
        SecretStr(""),
        "external TimescaleDB as the owner, postgresql://user:password@host/database; empty: the embedded",
    )
    ingest_url: SecretStr = setting(
        SecretStr(""), "likewise as a member of odograph_ingest; empty: made by `odograph up`"
    )
    dashboard_url: SecretStr = setting(SecretStr(""), "likewise as a member of odograph_dashboard")
    dispatch_url: SecretStr = setting(SecretStr(""), "likewise as a member of odograph_dispatch")
    port: int = setting(0, "port of the embedded PostgreSQL; 0: a free one, kept", ge=0, le=65535)

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

    client_id: str = setting("odograph-bridge", "stable MQTT client id: the broker's session hangs on it")
    user: str = setting("", "MQTT user name of the bridge; empty: anonymous")
    password_file: Path | None = setting(None, "file with its password, readable by its owner only")
    identity_property: str = setting("", "MQTT 5 user property with the sender's name; empty: none")
    http_port: int = setting(0, "port of /livez /readyz /metrics; 0: a free one, kept", ge=0, le=65535)
    guarantee: Literal["at-least-once", "at-most-once"] = setting(
        "at-least-once", "at-most-once: QoS 0, nothing doubled, what cannot be stored at once is lost"
    )
    shard: str = setting("1/1", "share of the fleet this bridge carries, i/n", pattern=r"^\d+/\d+$")
    shards: int = setting(1, "bridges that `odograph up` starts, each with its share", ge=1, le=16)
    max_in_flight: int = setting(20_000, "messages between MQTT and Kafka, at most", ge=1)
    max_in_flight_bytes: int = setting(64 << 20, "bytes between MQTT and Kafka, at most", ge=1 << 16)
    vehicle_rate: float = setting(200.0, "sustained messages/s of one vehicle and channel; 0: no limit", ge=0)
    vehicle_burst: int = setting(20_000, "messages that one vehicle may send at once", ge=1)
    crash_rate: float = setting(20.0, "sustained crash messages/s of one vehicle; 0: no limit", ge=0)
    crash_burst: int = setting(2000, "crash messages that one vehicle may send at once", ge=1)
    dead_letters_per_minute: int = setting(6000, "rejected messages that a lane keeps; 0: all", ge=0)
    drain_s: float = setting(10.0, "time to finish what is in flight after SIGTERM, s", gt=0)
    silent_s: float = setting(900.0, "an online vehicle that sends nothing for this long is silent, s", gt=0)

    @model_validator(mode="after")
    def _login(self) -> Self:
        if self.password_file is not None and not self.user:
            raise ValueError("ODOGRAPH_BRIDGE_PASSWORD_FILE is without ODOGRAPH_BRIDGE_USER")
        return self


class Downlink(Section):
    """Kafka to vehicles and webhooks."""

    http_port: int = setting(0, "port of /livez /readyz /metrics; 0: a free one, kept", ge=0, le=65535)
    webhooks: Path | None = setting(None, "TOML file of webhooks that receive alerts; none: no webhooks")
    key_file: Path | None = setting(
        None, "Ed25519 key (PEM, 0600) that signs the downlink; none: in the home"
    )
    public_key_file: Path | None = setting(None, "its public key (PEM), for vehicles; none: in the home")


class Watch(Section):
    """The process that measures all others, for the page Operations."""

    interval_s: float = setting(5.0, "pause between two measurements of every part, s", gt=0)
    slow_interval_s: float = setting(300.0, "pause between two measurements of memory and disk, s", gt=0)


class Dashboard(Section):
    """The web page."""

    port: int = setting(0, "port; 0: a free one, kept", ge=0, le=65535)
    refresh_s: float = setting(2.0, "interval of the live parts, s", gt=0)
    strained_share: float = setting(0.8, "from this load on a part is shown as strained; 1: full", gt=0)
    address: IPv4Address = setting(
        IPv4Address("127.0.0.1"), "address it listens on; any but loopback asks for ODOGRAPH_DASHBOARD_OIDC"
    )
    hosts: str = setting(
        "", "more host names, host[,host], under which it answers; requests for any other get 403"
    )
    oidc: Path | None = setting(None, "TOML file for OpenID Connect, [auth] and [roles]; none: local only")

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
