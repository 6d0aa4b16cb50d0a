"""Sets of sequence numbers (or of offsets) as ranges: sorted, apart from each other, both ends included."""

from collections.abc import Iterable, Sequence

Range = tuple[int, int]
Ranges = list[Range]


def merged(ranges: Iterable[Sequence[int]], apart: int = 1) -> Ranges:
    """Any ranges as the set they make together; those that begin up to ``apart`` after another are one."""
    found: Ranges = []
    for first, last in sorted((r[0], r[1]) for r in ranges):
        if found and first <= found[-1][1] + apart:
            found[-1] = (found[-1][0], max(found[-1][1], last))
        else:
            found.append((first, last))
    return found


def minus(ranges: Ranges, others: Ranges) -> Ranges:
    """What is in ``ranges`` and not in ``others``."""
    found: Ranges = []
    at = 0
    for first, last in ranges:
        while at < len(others) and others[at][1] < first:
            at += 1
        begin, k = first, at
        while k < len(others) and others[k][0] <= last:
            if others[k][0] > begin:
                found.append((begin, others[k][0] - 1))
            begin, k = others[k][1] + 1, k + 1
        if begin <= last:
            found.append((begin, last))
    return found


def both(ranges: Ranges, others: Ranges) -> Ranges:
    """What is in both."""
    return minus(ranges, minus(ranges, others))


def size(ranges: Ranges) -> int:
    """How many numbers there are."""
    return sum(last - first + 1 for first, last in ranges)


def text(ranges: Ranges, most: int = 10) -> str:
    """As ``3, 7-9``; of many the first ``most``."""
    shown = [str(first) if first == last else f"{first}-{last}" for first, last in ranges[:most]]
    more = len(ranges) - most
    return ", ".join(shown) + (f" and {more} ranges more" if more > 0 else "")
