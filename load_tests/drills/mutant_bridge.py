"""A bridge with one defect, so that drills can show that they see it.

Run: python -m load_tests.drills.mutant_bridge NAME. Each defect replaces a public method; the product has no
switch for any of them. Where that method is gone this fails: it never runs a bridge without its defect.
"""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Callable
from typing import Any, Final

from bridge.uplink import in_flight, kafka_sink, service
from infra.contract import topics
from infra.settings import settings
from load_tests.drills.defects import put_in, replace


def ack_before_produce() -> None:
    """A message is acknowledged when it is read, not when it is stored."""

    def hasty(honest: Any) -> Any:
        def add(self: Any, *arguments: Any, **named: Any) -> Any:
            ticket = honest(self, *arguments, **named)
            self.complete(ticket)
            return ticket

        return add

    replace(in_flight.AckFifo, "add", hasty)


def no_fifo() -> None:
    """When something is stored, all that was received is acknowledged."""

    def careless(honest: Any) -> Any:
        def take(self: Any) -> list[int]:
            taken: list[int] = honest(self)
            if taken:
                for ticket in self._queue:
                    taken += ticket.packet_ids
                self._queue.clear()
            return taken

        return take

    replace(in_flight.AckFifo, "take", careless)


def no_epochs() -> None:
    """Messages of a closed connection are acknowledged on the next one."""

    def forgetful(honest: Any) -> Any:  # noqa: ARG001  all of it is left out
        def open_(self: Any, epoch: int) -> None:
            self.epoch = epoch
            for ticket in self._queue:
                ticket.epoch = epoch

        return open_

    replace(in_flight.AckFifo, "open", forgetful)


def no_gapless() -> None:
    """A batch that Kafka refuses does not hold up those behind it."""

    plain = {"enable.gapless.guarantee": False, "enable.idempotence": False}
    replace(kafka_sink, "LASTING", lambda honest: honest | plain)


def own_sessions() -> None:
    """A session belongs to the bridge, not to the slot: the next owner of a slot does not find it."""

    def private(honest: Any) -> Any:
        def source_configs(*arguments: Any, **named: Any) -> Any:
            found = honest(*arguments, **named)
            return [dataclasses.replace(c, client_id=f"{c.client_id}-{os.getpid()}") for c in found]

        return source_configs

    replace(service, "source_configs", private)


def whole_tree() -> None:
    """The bridge that has the topics without a slot subscribes to all of the tree."""

    def greedy(honest: Any) -> Any:
        def uplink_filters(root: str, slot: int | None, crash: bool) -> Any:
            return honest(root, None if slot == topics.UNSLOTTED else slot, crash)

        return uplink_filters

    replace(topics, "uplink_filters", greedy)


MUTANTS: Final[dict[str, Callable[[], None]]] = {
    "ack-before-produce": ack_before_produce,
    "no-fifo": no_fifo,
    "no-epochs": no_epochs,
    "no-gapless": no_gapless,
    "own-sessions": own_sessions,
    "whole-tree": whole_tree,
}


def main(name: str) -> int:
    """Run a bridge with the named defect."""
    put_in(name, MUTANTS, "bridge")
    in_force = settings.load()
    return service.run(in_force, settings.endpoints(in_force))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1]))
