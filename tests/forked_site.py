"""A drill's site whose programs are forked."""

from __future__ import annotations

import subprocess
from typing import cast

from infra.stack.supervisor import odograph
from load_tests.drills.site import Site
from tests import forked


class ForkedSite(Site):
    """Its programs are forked, those apart into which a drill puts a defect."""

    def start(self, name: str, command: tuple[str, ...], **more: str) -> subprocess.Popen[bytes]:
        begin = odograph()
        if command[: len(begin)] != begin:
            return super().start(name, command, **more)
        log = self.home / "logs" / f"{name}.log"
        child = forked.spawn(self.run_dir, name, command[len(begin) :], log, self.env | more)
        return self.adopt(name, cast("subprocess.Popen[bytes]", child))
