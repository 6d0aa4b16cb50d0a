"""What vehicles' telemetry is put off while the fleet sends more than the stream carries.

The decision is the service's (the task `overload` of `odograph maintenance`), told in the compacted topic
``policy``. A bridge acts on it: it puts such frames into the topic ``telemetry-deferred``, which the archive
reads and no other query. So which frames were put off stands in the log, for all that read it later.
"""

from dataclasses import asdict, dataclass
from typing import Final, Self

import orjson

from infra.contract.errors import ContractError

POLICY_KEY: Final = "overload"
RULE: Final = "overload"
FLEET: Final = "FLEET000000000000"
"""Stands for the whole fleet where an alert names a vehicle: in the form of a VIN, and nobody's."""


@dataclass(frozen=True, slots=True)
class Deferral:
    """Frames of vehicles of ``classes`` are put off, but for one of each every ``show_every_s``."""

    classes: tuple[str, ...] = ()
    show_every_s: float = 60.0

    def encode(self) -> bytes:
        """The record under POLICY_KEY."""
        return orjson.dumps(asdict(self))

    @classmethod
    def decode(cls, value: bytes) -> Self:
        """Raises ContractError."""
        try:
            found = orjson.loads(value)
            return cls(tuple(map(str, found["classes"])), float(found["show_every_s"]))
        except (ValueError, TypeError, KeyError) as error:
            raise ContractError("bad_shape", f"no policy of deferral: {error}") from error
