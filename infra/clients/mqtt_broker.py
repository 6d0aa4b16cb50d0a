"""Where the MQTT broker is, as whom to log in there, and how to know that it is the right one."""

import socket
import ssl
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

from infra.contract.errors import ConfigError, raised_as
from infra.settings.files import read_secret

if TYPE_CHECKING:
    from paho.mqtt.client import Client

FORM: Final = "mqtt[s]://[user:password@]host[:port][,host[:port]] is wanted, in a password %40 for @"
DEFAULT_PORTS: Final = {"mqtt": 1883, "mqtts": 8883}


@dataclass(frozen=True, slots=True)
class MqttBroker:
    """A broker. ``ca_file`` empty: the system's authorities. ``cert_file``, ``key_file``: ours."""

    host: str
    port: int
    user: str = ""
    password: str = field(default="", repr=False)
    tls: bool = False
    ca_file: str = ""
    cert_file: str = ""
    key_file: str = ""

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'mqtts' if self.tls else 'mqtt'}://{host}:{self.port}"

    def access(self) -> dict[str, Any]:
        """All but the address, as far as it is not as by default."""
        return {key: value for key, value in asdict(self).items() if value and key not in ("host", "port")}

    def context(self) -> ssl.SSLContext | None:
        """What TLS is spoken with, None without TLS; names are always checked. Raises ConfigError."""
        if not self.tls:
            return None
        with raised_as(ConfigError, "ODOGRAPH_MQTT_CA_FILE", OSError):  # ssl.SSLError is one
            made = ssl.create_default_context(cafile=self.ca_file or None)
        with raised_as(ConfigError, "ODOGRAPH_MQTT_CERT_FILE or ODOGRAPH_MQTT_KEY_FILE", OSError):
            if self.cert_file:
                read_secret(Path(self.key_file), "ODOGRAPH_MQTT_KEY_FILE")
                # a password, even an empty one: OpenSSL asks at the terminal otherwise
                made.load_cert_chain(self.cert_file, self.key_file, password="")
        return made

    def log_in(self, client: "Client") -> None:
        """Give a client of paho's user, password and TLS. Raises ConfigError."""
        if self.user:
            client.username_pw_set(self.user, self.password or None)
        context = self.context()
        if context is not None:
            client.tls_set_context(context)

    def trouble(self, error: OSError) -> str:
        """What a failed connection says to people."""
        if isinstance(error, ssl.SSLCertVerificationError):
            return (
                f"{self} shows a certificate that is not trusted ({error.verify_message}); "
                "check ODOGRAPH_MQTT_CA_FILE and the host's name in ODOGRAPH_MQTT_URL"
            )
        if isinstance(error, ssl.SSLError):
            return f"{self}: no TLS connection ({error.reason or error}); does it speak TLS on this port?"
        return f"{self} does not answer ({error})"


def opened(broker: MqttBroker, timeout_s: float) -> socket.socket:
    """A connection of TCP, and of TLS where it is asked for. Raises OSError, ConfigError."""
    sock = socket.create_connection((broker.host, broker.port), timeout_s)
    context = broker.context()
    return sock if context is None else context.wrap_socket(sock, server_hostname=broker.host)


def of_url(url: str) -> tuple[MqttBroker, ...]:
    """The brokers at ``mqtt[s]://[user:password@]host[:port][,host[:port]]``, one login for all.

    A ValueError never holds the password.
    """
    scheme, _, rest = url.partition("://")
    login, _, hosts = rest.rpartition("@")
    user, _, password = map(unquote, login.partition(":"))
    if scheme not in DEFAULT_PORTS:
        raise ValueError(FORM)
    if password and not user:
        raise ValueError(f"{FORM}; a password is without its user")
    found = []
    for host in hosts.removesuffix("/").split(","):
        try:
            parts = urlsplit(f"//{host}")
            port = DEFAULT_PORTS[scheme] if parts.port is None else parts.port
        except ValueError:
            raise ValueError(f"{FORM}; the port is a number from 1 to 65535") from None
        if parts.path or parts.query or parts.fragment:
            raise ValueError(f"{FORM}; nothing may follow host and port")
        if not parts.hostname or port == 0:
            raise ValueError(FORM)
        found.append(MqttBroker(parts.hostname, port, user, password, tls=scheme == "mqtts"))
    return tuple(found)
