"""The command ``odograph``: gathers the commands of every package and ends with the right exit code.

0 fine, 1 a check failed or a service is away, 2 wrong usage or setting.
"""

import atexit
import os
import sys
import warnings
from contextlib import suppress
from importlib import import_module
from typing import NoReturn

import structlog
import typer
from rich.console import Console

from infra.contract.errors import NO_SPACE, ConfigError, OdographError, shown
from infra.settings.settings import load

PACKAGES = (
    "infra.stack", "infra.sql", "infra.demo", "infra.trace", "edge_simulator", "bridge", "stream_jobs",
    "dashboard", "load_tests",
)  # fmt: skip

app = typer.Typer(
    name="odograph",
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,
    help="Open analytics for vehicle event data recorders: MQTT to Kafka to Spark to TimescaleDB.",
)


def main() -> None:
    """Run the command line; an error meant for the user is one message, not a trace.

    So is a file that cannot be read or written, and a full disk: but for a program's log, which keeps the
    trace. An argument that is no UTF-8 may be a path; as anything else it is told.
    """
    warnings.formatwarning = _warning
    atexit.register(_quiet_end)  # the first that is registered comes last
    for package in PACKAGES:
        import_module(f"{package}.cli").register(app)
    try:
        if os.geteuid() == 0:
            _among_programs()
        app()
    except OdographError as error:
        _end(str(error), error.exit_code)
    except OSError as error:
        if error.filename is None and error.errno not in NO_SPACE:
            raise
        if structlog.is_configured() and not sys.stderr.isatty():
            raise
        _end(shown(str(error)), 1)
    except UnicodeEncodeError:
        odd = [word for word in sys.argv[1:] if word != word.encode(errors="replace").decode()]
        if not odd:
            raise
        _end(f"{shown(odd[0])}: no UTF-8 text", 2)


def _end(problem: str, exit_code: int) -> NoReturn:
    console = Console(stderr=True, highlight=False)
    console.print(f"error: {problem}", markup=False, soft_wrap=True, style="red")
    sys.exit(exit_code)


def _quiet_end() -> None:
    """DuckDB tells of each object that a thread still has when the interpreter ends, behind the error."""
    if "duckdb" in sys.modules:
        sys.stderr.flush()
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


def _among_programs() -> None:
    """Root's ways in a home where programs are users of their own. Raises ServiceError."""
    with suppress(ConfigError):  # the command will tell
        settings = load()
        if (settings.paths.home / "programs").exists():
            from infra.stack.access import users

            os.umask(0o002)  # in a folder that programs share they may do with a file what root may
            users.unfollow(settings)


def _warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    line: str | None = None,  # noqa: ARG001
) -> str:
    where = "" if category is UserWarning else f" ({category.__name__} in {filename}:{lineno})"
    return f"warning: {message}{where}\n"


if __name__ == "__main__":
    main()
