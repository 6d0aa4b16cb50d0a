"""PostgreSQL's two servers in a fault, and what people then do by hand (runbooks)."""

from __future__ import annotations

import os
import signal
from contextlib import suppress

from infra.stack import processes
from infra.stack.downloads import cache
from infra.stack.downloads.rootfs import DATA
from infra.stack.postgres import LOGIN, PostgresPair
from infra.stack.service import HOST


def kill(pair: PostgresPair) -> None:
    """``kill -9`` the primary, with all its backends."""
    found = pair.runner.find(pair.primary)
    for pid in processes.tree(found.pid) if found else ():
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def promote(pair: PostgresPair) -> None:
    """The standby becomes the primary, which waits for nobody, and follows when it is started anew."""
    pair.promote(pair.standby)
    pair.file.write_text(pair.standby)


def bring_back(pair: PostgresPair) -> None:
    """Start the killed one as it lies, as whatever keeps services running does."""
    pair.runner.start(pair.service(pair.standby))


def rejoin(pair: PostgresPair) -> None:
    """Take what only the old one had out of it, and let it follow."""
    pair.runner.stop(pair.standby)
    source = f"host={HOST} port={pair.ports[pair.primary]} dbname=postgres {LOGIN}"
    rewind = ("--target-pgdata", f"{DATA}/cluster", "--source-server", source)
    pair.run_in(pair.standby, f"{cache.POSTGRES_BIN}/pg_rewind", *rewind)
    pair.follow()
