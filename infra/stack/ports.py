"""Ports on the loopback interface: which are free, and which one a part of the stack gets."""

from __future__ import annotations

import json
import random
import socket
from collections.abc import Collection
from pathlib import Path

from infra.contract.errors import ServiceError

HOST = "127.0.0.1"
FREE_RANGE = range(20_000, 32_000)
"""Below the range from which the kernel takes ports for outgoing connections: a kept port is not stolen."""


def is_free(port: int) -> bool:
    """Whether a server could listen on the port now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
            probe.listen(1)
        except OSError:
            return False
    return True


def free_port(taken: Collection[int] = ()) -> int:
    """A free port that is not in ``taken``."""
    for port in random.sample(FREE_RANGE, k=len(FREE_RANGE)):
        if port not in taken and is_free(port):
            return port
    raise ServiceError(f"no free port between {FREE_RANGE.start} and {FREE_RANGE.stop} on {HOST}")


def choose(fixed: int, kept: int | None, preferred: int, taken: Collection[int]) -> int:
    """The port of a part that does not run yet.

    A fixed one (not 0) is taken as it is; else the one kept from last time, else the preferred one (0: none),
    each only when free; else any free one.
    """
    if fixed:
        return fixed
    for port in (kept, preferred):
        if port and port not in taken and is_free(port):
            return port
    return free_port(taken)


def load(path: Path) -> dict[str, int]:
    """The ports kept by the last start, by part."""
    try:
        kept: dict[str, int] = json.loads(path.read_text())
    except (FileNotFoundError, json.JSONDecodeError):
        return {}
    return kept


def holder(port: int) -> str:
    """Who listens on the port, as ``name (pid 123)``; "another program" where that cannot be seen."""
    inode = _listening_inode(port)
    for fd in Path("/proc").glob("[0-9]*/fd/*") if inode else ():
        try:
            if fd.readlink().name == f"socket:[{inode}]":
                pid = fd.parts[2]
                return f"{Path('/proc', pid, 'comm').read_text().strip()} (pid {pid})"
        except OSError:
            continue  # the process or the descriptor is gone, or not ours to see
    return "another program"


def _listening_inode(port: int) -> str | None:
    for table in (Path("/proc/net/tcp"), Path("/proc/net/tcp6")):
        for line in table.read_text().splitlines()[1:] if table.exists() else ():
            fields = line.split()
            if fields[3] == "0A" and int(fields[1].rpartition(":")[2], 16) == port:
                return fields[9]
    return None
