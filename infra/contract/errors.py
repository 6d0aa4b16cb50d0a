"""Every error a user can meet.

OdographError
├── ConfigError        a setting, option or file is wrong: exit code 2
├── ServiceError       a part of the stack is away or not ready: exit code 1
├── ArchiveError       a file of the archive is missing, cut short or not what was written: exit code 1
└── ContractError      a payload does not follow the contract; ``reason`` is the dead-letter label
"""

import errno
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

NO_SPACE: Final = (errno.ENOSPC, errno.EDQUOT)
"""Of an OSError that names no file: the disk is full, or what one may have of it."""


class OdographError(Exception):
    """Base of all errors that carry a message meant for the user: what, where, what to do."""

    exit_code = 1


class ConfigError(OdographError):
    """A setting, an option or an input file is wrong. Fit to be shown whatever that holds."""

    exit_code = 2

    def __init__(self, message: str) -> None:
        super().__init__(shown(message))


def shown(message: str, most: int = 1500) -> str:
    """The text with its middle left out where it is long, and control characters written as escapes."""
    if len(message) > most:
        left_out = f"[{len(message) - most} characters more]"
        message = f"{message[: 2 * most // 3]} {left_out} {message[-most // 3 :]}"
    return "".join(c if c.isprintable() or c == "\n" else ascii(c)[1:-1] for c in message)


class ServiceError(OdographError):
    """A service is away, not ready, or refused."""


class ArchiveError(OdographError):
    """The archive is not as it was written, or cannot be written."""


class ContractError(OdographError):
    """A payload breaks the contract; ``reason`` is one of REASONS, fit for a header and a metric label."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail


@contextmanager
def raised_as(kind: Callable[[str], OdographError], what: str, *errors: type[Exception]) -> Iterator[None]:
    """``errors`` of the block as one of ours, which begins with ``what``."""
    try:
        yield
    except errors as error:
        raise kind(f"{what}: {str(error).strip()}") from error


MALFORMED: Final = (ValueError, TypeError, KeyError, AttributeError)
"""What it raises to read a value that is of another form."""

REASONS = (
    "too_large", "bad_topic", "unknown_topic", "bad_json", "bad_schema", "bad_identity", "identity_mismatch",
    "bad_clock", "bad_shape", "bad_value",
    "bad_digest",  # the parts of a crash record do not give what was sealed
    "rate_limited",  # whole, but more than one vehicle may send
    "unstorable",  # Kafka refused the record for what it is
    "session_lost",  # whatever the broker held for the bridge, when it no longer has its session
    "refused",  # the database does: a record of an event topic, or a row of the jobs
    "internal",  # an error of the service itself, found on this message
)  # fmt: skip

WHOLE_REASONS = ("rate_limited", "unstorable")
"""Reasons of dead letters that hold a whole message: its identity can be read."""
