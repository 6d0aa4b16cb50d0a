"""A drill's site and a supervisor whose programs are forked."""

from __future__ import annotations

import os
import subprocess
from typing import cast

from infra.stack.supervisor import Program, Supervisor, odograph
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


class ForkedSupervisor(Supervisor):
    """Its programs are forked."""

    def _spawn(self, program: Program) -> subprocess.Popen[bytes]:
        env = {**(os.environ if self.env is None else self.env), **program.env}
        words, log = program.command[len(odograph()) :], self.log(program.name)
        return cast("subprocess.Popen[bytes]", forked.spawn(self._run_dir, program.name, words, log, env))
