"""The file of webhooks: who is told what, where, and the secrets, each in a file of its own."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Final, Literal
from urllib.parse import SplitResult, urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from infra.contract.errors import ConfigError
from infra.settings.files import read_secret

SECRET_BYTES: Final = 16
"""A shorter secret can be guessed."""

_PLAIN: Final = re.compile(r"[!-~]+")

Severity = Literal["WARNING", "MINOR", "MAJOR", "CRITICAL"]


class _Entry(BaseModel):
    """A webhook as written."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,31}$")]
    url: str
    secret_file: Path
    min_severity: Severity = "MAJOR"
    timeout_s: float = Field(10.0, gt=0, le=120)
    give_up_s: float = Field(300.0, gt=0, le=86_400)
    repeat_s: float = Field(300.0, ge=0)


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    webhook: tuple[_Entry, ...] = ()


@dataclass(frozen=True, slots=True)
class Webhook:
    """A webhook ready for use. Neither address nor secret is ever shown: many a URL is a secret itself."""

    name: str
    url: SplitResult = field(repr=False)
    secret: bytes = field(repr=False)
    min_severity: str
    timeout_s: float
    give_up_s: float
    repeat_s: float


def load(path: Path | None) -> tuple[Webhook, ...]:
    """The webhooks in a TOML file, none where there is no file. Raises ConfigError."""
    if path is None:
        return ()
    try:
        entries = _File.model_validate(tomllib.loads(path.read_text())).webhook
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"downlink.webhooks {path}: {error}") from error
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise ConfigError(f"downlink.webhooks {path}: {place}: {first['msg']}") from error
    names = [entry.name for entry in entries]
    if len(set(names)) < len(names) or "vehicles" in names:
        raise ConfigError(f"downlink.webhooks {path}: each webhook needs a name of its own, not `vehicles`")
    return tuple(_webhook(entry, path) for entry in entries)


def _webhook(entry: _Entry, path: Path) -> Webhook:
    url = urlsplit(entry.url)
    try:
        right = url.scheme in ("http", "https") and url.hostname and url.port != 0
    except ValueError:  # a port that is no number
        right = False
    if not right or url.username is not None or url.fragment or _PLAIN.fullmatch(entry.url) is None:
        raise ConfigError(
            f"downlink.webhooks {path}: {entry.name}: url: http(s)://host[:port]/path?query without user, "
            "fragment, spaces and non-ASCII characters is wanted"
        )
    secret = _secret(path.parent / entry.secret_file, f"downlink.webhooks {path}: {entry.name}")
    return Webhook(
        entry.name, url, secret, entry.min_severity, entry.timeout_s, entry.give_up_s, entry.repeat_s
    )


def _secret(path: Path, where: str) -> bytes:
    """What a private file holds, without the white space around it. Raises ConfigError."""
    secret = read_secret(path, f"{where}: secret_file").strip().encode()
    if len(secret) < SECRET_BYTES:
        raise ConfigError(f"{where}: secret_file {path}: at least {SECRET_BYTES} bytes are wanted")
    return secret
