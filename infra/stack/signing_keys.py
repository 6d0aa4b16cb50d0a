"""The downlink's keys at set-up: what signs messages to vehicles, and what vehicles check them with."""

from __future__ import annotations

from infra.contract import downlink
from infra.contract.errors import ConfigError
from infra.settings.settings import Settings
from infra.stack.postgres import write_private


def ensure_keys(settings: Settings) -> None:
    """Make the home's keys where the settings name none. Idempotent; raises ConfigError.

    The public key always follows from the private one; one that the settings name must be its counterpart.
    """
    own = settings.paths.home / downlink.KEY_FILE
    if settings.downlink.key_file is None and not own.exists():
        write_private(own, downlink.new_key())
    pem = downlink.signer(settings).public_pem()
    path = downlink.public_key_file(settings)
    if settings.downlink.public_key_file is None:
        path.write_bytes(pem)
        return
    downlink.verifier(settings)
    if path.read_bytes().strip() != pem.strip():
        raise ConfigError(
            f"ODOGRAPH_DOWNLINK_PUBLIC_KEY_FILE {path} is not the public key of ODOGRAPH_DOWNLINK_KEY_FILE; "
            "make it: openssl pkey -in KEY_FILE -pubout"
        )
