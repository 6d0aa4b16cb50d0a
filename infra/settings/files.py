"""Files: private secrets, JSON of programs of ours, and people's YAML read within bounds."""

import json
import os
from pathlib import Path
from secrets import token_hex
from typing import Any, Final

import yaml
from pydantic_core import ErrorDetails

from infra.contract.errors import ConfigError, raised_as

MAX_BYTES: Final = 16 << 20
MAX_DEPTH: Final = 50
MAX_NODES: Final = 1_000_000  # aliases written out: a few lines of them can stand for billions

KEY_ERRORS: Final = ("missing", "extra_forbidden")  # errors of pydantic about a key, not its value
_WANTED: Final = {
    "missing": "the key is missing", "extra_forbidden": "there is no such key",
    "bool_type": "true or false is wanted", "float_type": "a number is wanted",
    "int_type": "a whole number is wanted", "finite_number": "a finite number is wanted",
    "string_type": "a text is wanted", "string_too_short": "a text is wanted",
    "tuple_type": "a list is wanted, as [1, 2]", "list_type": "a list is wanted",
    "model_type": "keys with values are wanted",
    "greater_than": "more than {gt:g} is wanted", "greater_than_equal": "at least {ge:g} is wanted",
    "less_than": "less than {lt:g} is wanted", "less_than_equal": "at most {le:g} is wanted",
    "literal_error": "{expected} is wanted", "string_pattern_mismatch": "a text like {pattern} is wanted",
}  # fmt: skip

_Loader: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_UNREADABLE: Final = (yaml.YAMLError, ValueError, TypeError, AttributeError, LookupError, OverflowError)
"""What PyYAML raises: its own errors, and others for values such as ``!!int x``, ``2026-02-30`` or ``0x``."""


def read_secret(path: Path, option: str) -> str:
    """The text of a file that its owner alone may read, without the line's end; raises ConfigError.

    Of root's, as Kubernetes mounts a secret, our group may read it too: that is how we do.
    """
    with raised_as(ConfigError, f"{option} {path}", OSError, UnicodeDecodeError):
        found = path.stat()
        text = path.read_text()
    if found.st_mode & (0o037 if found.st_uid == 0 != os.geteuid() else 0o077):
        raise ConfigError(f"{option} {path}: others may read it; run: chmod 600 {path}")
    return text.rstrip("\r\n")


def read_json(path: Path) -> Any:
    """What a program of ours keeps in a JSON file; {} where it is not there (yet).

    Raises ConfigError where it is another user's or somebody else wrote it.
    """
    try:
        return json.loads(path.read_text())
    except FileNotFoundError:
        return {}
    except PermissionError as error:
        raise ConfigError(f"{path}: {error.strerror}; run as the user who gave `odograph up`") from error
    except ValueError as error:
        raise ConfigError(f"{path} is no JSON: {error}") from error


def write_whole(
    path: Path, content: bytes | memoryview, mode: int = 0o666, owner: tuple[int, int] | None = None
) -> None:
    """Write a file whole or not at all, to the disk, with this mode and ``owner`` (ids) from the start.

    Through no link, which a program could have put there.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}.{token_hex(4)}")
    try:
        with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:  # noqa: PTH123
            if owner is not None:
                os.fchown(file.fileno(), *owner)
                os.fchmod(file.fileno(), mode)  # whatever the umask
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)  # it could not be written


def write_private(path: Path, text: str, mode: int = 0o600) -> None:
    """The same of a text that its owner alone may read."""
    write_whole(path, text.encode(), mode)


def wanted(error: ErrorDetails) -> str:
    """What should have been there, of an error of pydantic: the same words for every file and option."""
    told = _WANTED.get(error["type"])
    return told.format(**error.get("ctx", {})) if told else error["msg"].removeprefix("Value error, ")


def read_yaml(path: Path, what: str) -> Any:
    """The document in a file; raises ConfigError that begins with ``what``, the file's purpose."""
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
        if len(raw) > MAX_BYTES:
            raise yaml.YAMLError(f"more than {MAX_BYTES} bytes")
        return parse_yaml(raw.decode())
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigError(f"{what} {path} cannot be read: {' '.join(str(error).split())}") from error


def parse_yaml(text: str) -> Any:
    """The value that a text stands for; raises yaml.YAMLError, whatever is wrong with it."""
    try:
        _check_size(text)
        return yaml.load(text, _Loader)  # noqa: S506  a safe loader
    except yaml.YAMLError:
        raise
    except _UNREADABLE as error:
        raise yaml.YAMLError(str(error)) from error


def _check_size(text: str) -> None:
    """Raise YAMLError for what is nested too deeply, or too large with its aliases written out."""
    sizes: dict[str, int] = {}
    open_nodes: list[tuple[str | None, int]] = []
    total = 0
    for event in yaml.parse(text, _Loader):
        if isinstance(event, yaml.AliasEvent):
            if event.anchor not in sizes:
                raise yaml.YAMLError(f"the alias {event.anchor} stands for what it is a part of, or nothing")
            total += sizes[event.anchor]
        elif isinstance(event, yaml.ScalarEvent):
            total += 1
            sizes[event.anchor or ""] = 1
        elif isinstance(event, yaml.CollectionStartEvent):
            open_nodes.append((event.anchor, total))
            total += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, before = open_nodes.pop()
            sizes[anchor or ""] = total - before
        if total > MAX_NODES or len(open_nodes) > MAX_DEPTH:
            raise yaml.YAMLError(f"more than {MAX_NODES} values, or nested deeper than {MAX_DEPTH} levels")
