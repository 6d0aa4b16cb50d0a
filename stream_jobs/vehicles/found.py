"""What a detector found."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Found:
    """What a detector found at ``event_ms``; ``since_ms`` is when it began to hold."""

    event_ms: int
    since_ms: int
    value: float | None
    limit: float | None
    severity: str | None = None
    """None: the rule's own."""
    detail: str | None = None
    """Words for people that the rule's message does not have: the fence's name, the wheel."""
    apart: str | None = None
    """What of the rule is an alert of its own (a trouble code, a fence): that alert is ``rule.apart``."""
    ended: bool = False
    """No finding but an end: the alert, if one is active, is over at ``event_ms``."""
