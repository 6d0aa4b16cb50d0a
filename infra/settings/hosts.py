"""Under which names a server answers: the check against DNS rebinding, when a web site's name leads to us.

Only the headers ``Host`` and ``Origin`` count: a page's script cannot forge them. ``X-Forwarded-Host`` and
the like are not read.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from ipaddress import IPv6Address
from typing import Final

LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})
"""No name server can lead these elsewhere."""

_AUTHORITY: Final = re.compile(r"(?:\[([0-9a-f:.]+)\]|([a-z0-9._-]+))(:[0-9]{1,5})?")


def host_name(authority: str, port: bool = True) -> str | None:
    """The host of ``host`` or ``host:port`` in lower case, IPv6 without brackets; None for anything else.

    Without ``port`` one is not taken.
    """
    found = _AUTHORITY.fullmatch(authority.lower())
    if found is None or (found[3] and not port):
        return None
    try:
        return found[2] or str(IPv6Address(found[1]))
    except ValueError:
        return None


def is_ours(hosts: Sequence[str], origins: Sequence[str], names: Collection[str]) -> bool:
    """Whether a request with these values of ``Host`` and ``Origin`` is one for a server called ``names``.

    There must be one Host; where an Origin is told, it must be a page of ours too. Ports are not compared.
    """
    if len(hosts) != 1 or host_name(hosts[0]) not in names:
        return False
    return not origins or (len(origins) == 1 and _origin_name(origins[0]) in names)


def _origin_name(origin: str) -> str | None:
    scheme, _, authority = origin.partition("://")
    return host_name(authority) if scheme in ("http", "https") else None
