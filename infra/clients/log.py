"""Logs: structured lines on standard error, for people on a terminal, JSON otherwise."""

import logging
import sys

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger


def configure(name: str) -> None:
    """Set up logging for the process called ``name``. Called once, by the command that is the process."""
    machine: list[Processor] = [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    ending: list[Processor] = [structlog.dev.ConsoleRenderer()] if sys.stderr.isatty() else machine

    def with_process(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
        return {**event, "process": name}

    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True, key="at"),
            with_process,
            *ending,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    form = "%(levelname)s %(name)s: %(message)s"
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format=form)


def refused(what: str, who: str = "") -> None:
    """Say in the log what was refused to whom; maintenance counts it by minute into the audit log."""
    structlog.get_logger("odograph").warning("refused", who=who, what=what)
