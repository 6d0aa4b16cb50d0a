"""Which offsets may be committed: those before the first record that is not settled. Pure."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field


@dataclass(slots=True)
class Place:
    """Where a record lies, and whether it was delivered, skipped or given up."""

    partition: int
    offset: int
    settled: bool = False


@dataclass(slots=True)
class Progress:
    """Records taken and not committed yet, in the order of each partition. ``open`` counts the unsettled."""

    open: int = 0
    _places: dict[int, deque[Place]] = field(default_factory=dict)

    def take(self, partition: int, offset: int) -> Place:
        """A record that was read."""
        place = Place(partition, offset)
        self._places.setdefault(partition, deque()).append(place)
        self.open += 1
        return place

    def settle(self, place: Place) -> None:
        """Nothing more will be done about it."""
        if not place.settled:
            place.settled = True
            self.open -= 1

    def committable(self) -> dict[int, int]:
        """The offset to go on from, by partition, where that has moved. Each is given once."""
        moved: dict[int, int] = {}
        for partition, places in self._places.items():
            while places and places[0].settled:
                moved[partition] = places.popleft().offset + 1
        return moved
