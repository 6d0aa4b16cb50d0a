"""Who logs in to an external database: one user for each role, made here where the settings name none."""

from __future__ import annotations

from typing import Final

import psycopg
from psycopg import errors, sql

from infra.clients import database_url
from infra.clients.db import session
from infra.contract.errors import ConfigError, ServiceError
from infra.settings.sections import Db
from infra.stack.postgres import DASHBOARD, DISPATCH, INGEST, Passwords, limit_roles

ROLES: Final = {"ingest_url": INGEST, "dashboard_url": DASHBOARD, "dispatch_url": DISPATCH}
CONNECT_S: Final = 10


def addresses(db: Db, words: Passwords) -> dict[str, str]:
    """By name of its address, how each role logs in: as the settings say, else under its own name."""
    owner, given = db.url.get_secret_value(), db.given()
    of_role = {INGEST: words.ingest, DASHBOARD: words.dashboard, DISPATCH: words.dispatch}
    made = {key: database_url.with_user(owner, role, of_role[role]) for key, role in ROLES.items()}
    found = {f"db_{key}": given.get(key, url) for key, url in made.items()}
    return {"db_owner_url": owner, **found}


def ensure_logins(db: Db, words: Passwords) -> None:
    """Let the roles log in that no setting names, with passwords of this home; who can already stays as is.

    Raises ConfigError naming the settings that are missing where the owner may not do that.
    """
    wanted = {key: role for key, role in ROLES.items() if key not in db.given()}
    if not wanted:
        return
    made = addresses(db, words)
    missing = ", ".join(f"ODOGRAPH_DB_{key}".upper() for key in wanted)
    try:
        with session(made["db_owner_url"], connect_timeout_s=CONNECT_S, autocommit=True) as connection:
            for key, role in wanted.items():
                query = "SELECT rolcanlogin FROM pg_roles WHERE rolname = %s"
                row = connection.execute(query, (role,)).fetchone()
                if row is not None and row[0]:
                    continue
                verb = "CREATE" if row is None else "ALTER"
                word = sql.Literal(getattr(words, key.removesuffix("_url")))
                text = sql.SQL(verb + " ROLE {} LOGIN PASSWORD {}").format(sql.Identifier(role), word)
                connection.execute(text)
                limit_roles(connection, role)
    except errors.InsufficientPrivilege as error:
        raise ConfigError(
            f"{missing}: not set, and the user of ODOGRAPH_DB_URL may not make these roles ({error}); "
            "set them, or allow it CREATEROLE"
        ) from error
    except psycopg.Error as error:
        raise ServiceError(f"ODOGRAPH_DB_URL: {str(error).strip()}") from error


def check_logins(db: Db, words: Passwords) -> None:
    """Log in as each role once; raises ConfigError where that fails or the user is no member of its role."""
    for name, url in addresses(db, words).items():
        key = name.removeprefix("db_")
        if key not in ROLES:
            continue
        setting, role = f"ODOGRAPH_DB_{key}".upper(), ROLES[key]
        try:
            with session(url, connect_timeout_s=CONNECT_S) as connection:
                query = "SELECT pg_has_role(current_user, %s, 'member')"
                row = connection.execute(query, (role,)).fetchone()
        except psycopg.Error as error:
            own = "" if key in db.given() else f" (not set: {role} with this home's password)"
            raise ConfigError(f"{setting}{own}: {str(error).strip()}") from error
        if row is None or not row[0]:
            raise ConfigError(
                f"{setting}: {database_url.user(url)} is no member of {role}: "
                f"GRANT {role} TO {database_url.user(url)}"
            )
