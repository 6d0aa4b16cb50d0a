"""Asks the processes of the pipeline how they are, by their health pages."""

from __future__ import annotations

import json
import urllib.error
import urllib.request

from infra.stack.ports import HOST

TIMEOUT_S = 3.0


def readyz(port: int) -> str | None:
    """None when the process on ``port`` is ready, else why not."""
    return told(port)[0]


def told(port: int) -> tuple[str | None, str | None]:
    """Why the process on ``port`` is not ready, None when it is; and what it remarks when it is."""
    url = f"http://{HOST}:{port}/readyz"
    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT_S) as answer:
            said = answer.read().strip()
            return None, reasons(said) if said not in (b"", b"{}", b"ok") else None
    except urllib.error.HTTPError as error:
        with error:
            return reasons(error.read()), None
    except (OSError, TimeoutError) as error:
        return f"no answer on {HOST}:{port} ({getattr(error, 'reason', error)})", None


def reasons(body: bytes) -> str:
    """The reasons in a 503's body as one line."""
    try:
        said = json.loads(body)
    except json.JSONDecodeError:
        return body.decode(errors="replace").strip()[:200] or "not ready"
    if not isinstance(said, dict):
        return str(said)[:200]
    return "; ".join(f"{name}: {reason}" for name, reason in said.items()) or "not ready"
