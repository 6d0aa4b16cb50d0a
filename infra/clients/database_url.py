"""Addresses of databases: libpq URLs, whose parameters are kept whatever else changes."""

from typing import Final
from urllib.parse import parse_qsl, quote, unquote, urlsplit, urlunsplit

FORM: Final = "postgresql://user[:password]@host[:port]/database[?parameters of libpq] is wanted"


def checked(url: str) -> str:
    """The URL, if libpq takes it and it names user and database; a ValueError never holds the password."""
    from psycopg import ProgrammingError  # noqa: PLC0415  most commands never need it
    from psycopg.conninfo import conninfo_to_dict  # noqa: PLC0415

    try:
        parts = urlsplit(url)
        found = conninfo_to_dict(url)
    except (ProgrammingError, ValueError):
        raise ValueError(f"{FORM}; a parameter that libpq does not know is refused") from None
    if parts.scheme not in ("postgresql", "postgres") or not parts.username or not found.get("dbname"):
        raise ValueError(FORM)
    if {"user", "password", "dbname"} & {key for key, _ in parse_qsl(parts.query)}:
        raise ValueError(f"{FORM}; user, password and database stand before the parameters")
    ports = filter(None, str(found.get("port") or "").split(","))  # of a host without one it is 5432
    if not all(port.isascii() and port.isdigit() and 1 <= int(port) <= 65_535 for port in ports):
        raise ValueError(f"{FORM}; a port is a number from 1 to 65535")
    return url


def to_primary(url: str, reads: bool = False) -> str:
    """The address; of several servers the one that takes writes, unless the URL asks for another.

    ``reads``: of a role whose sessions are read only; for it the one that takes writes is the primary.
    """
    from psycopg.conninfo import conninfo_to_dict  # noqa: PLC0415

    parts, found = urlsplit(url), conninfo_to_dict(url)
    if "," in str(found.get("host")) and "target_session_attrs" not in found:
        parts = parts._replace(query="&".join(filter(None, (parts.query, "target_session_attrs=read-write"))))
    return urlunsplit(parts).replace("_attrs=read-write", "_attrs=primary" if reads else "_attrs=read-write")


def login(url: str) -> tuple[str, str]:
    """User and password as the server gets them; no password: empty."""
    parts = urlsplit(url)
    return unquote(parts.username or ""), unquote(parts.password or "")


def with_name(url: str, database: str) -> str:
    """The same address with another database."""
    return urlunsplit(urlsplit(url)._replace(path=f"/{quote(database, safe='')}"))


def with_user(url: str, name: str, password: str) -> str:
    """The same address with another user."""
    parts = urlsplit(url)
    hosts = parts.netloc.rpartition("@")[2]
    return urlunsplit(parts._replace(netloc=f"{quote(name, safe='')}:{quote(password, safe='')}@{hosts}"))
