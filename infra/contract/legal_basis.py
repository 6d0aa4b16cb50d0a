"""By which right data of a vehicle's recorder leave the service: US Driver Privacy Act of 2015.

Public Law 114-94, section 24302(b); 49 U.S.C. 30101 note.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from infra.contract.errors import ConfigError

LAW: Final = "US Driver Privacy Act of 2015, section 24302(b)"
BASES: Final[Mapping[str, str]] = {
    "consent": "the owner or lessee consents, in writing, electronically or recorded, or asks for own data",
    "court-order": "a court or another judicial or administrative authority authorizes it",
    "investigation": "49 U.S.C. 1131(a) or 30166; the vehicle is not named",
    "emergency": "to determine the need for, or to facilitate, emergency medical response to a crash",
    "research": "traffic safety research; the vehicle is not named",
}
UNNAMED: Final = ("investigation", "research")
REFERENCE_MOST: Final = 200
_TEXT: Final = re.compile(rf"({'|'.join(BASES)}): *([^\x00-\x20\x7f-\x9f][^\x00-\x1f\x7f-\x9f]*)")


@dataclass(frozen=True, slots=True)
class LegalBasis:
    """One of BASES and what proves it, as a docket number or where a consent is kept."""

    kind: str
    reference: str

    @property
    def names_vehicle(self) -> bool:
        """Whether the vehicle may be named to who gets the data."""
        return self.kind not in UNNAMED

    def __str__(self) -> str:
        return f"{self.kind}: {self.reference}"


def legal_basis(text: str) -> LegalBasis:
    """Of ``KIND: REFERENCE``; raises ConfigError that says what is allowed."""
    found = _TEXT.fullmatch(text.strip())
    if found is None or len(found[2]) > REFERENCE_MOST:
        allowed = "\n".join(f"  {kind:14} {what}" for kind, what in BASES.items())
        raise ConfigError(
            'a legal basis is wanted, KIND: REFERENCE, as "court-order: docket 4:26-cv-17"; of '
            f"{LAW}:\n{allowed}"
        )
    return LegalBasis(found[1], found[2])
