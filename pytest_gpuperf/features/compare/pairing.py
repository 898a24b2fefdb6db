"""Pairing of items in several groups: tests of runs, or launches of files."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping, Sequence

T = TypeVar("T")


def pair_up(groups: Sequence[Sequence[T]], *keys: Callable[[T], Hashable]) -> list[Mapping[int, int]]:
    """Pair the items of groups that have the same key.

    The first item with a key belongs to the first item with that key in the other groups, the second to the
    second. Items without a partner are paired by the next key.

    Args:
        groups: The items.
        keys: The keys of an item, the most exact first.

    Returns:
        One row for each set of items, in the order of the first group: the index of the item by the index of
        its group. A row with one entry is an item without a partner.
    """
    rows: list[Mapping[int, int]] = []
    paired: set[tuple[int, int]] = set()
    for key in (*keys, None):
        found: dict[Hashable, dict[int, int]] = {}
        for group, items in enumerate(groups):
            seen: Counter[Hashable] = Counter()
            for index, item in enumerate(items):
                if (group, index) in paired:
                    continue
                value = (group, index) if key is None else key(item)
                found.setdefault((value, seen[value]), {})[group] = index
                seen[value] += 1
        rows += [row for row in found.values() if len(row) > 1 or key is None]
        paired |= {pair for row in found.values() if len(row) > 1 for pair in row.items()}
    return sorted(rows, key=lambda row: min(row.items()))


def pair_the_rest(
    groups: Sequence[Sequence[T]], rows: Sequence[Mapping[int, int]]
) -> list[Mapping[int, int]]:
    """Pair items without a partner that follow the same pair, in their order, if each group has as many.

    Args:
        groups: The items.
        rows: Rows of `pair_up`.

    Returns:
        One row for each new pair.
    """
    together = {place: number for number, row in enumerate(rows) if len(row) > 1 for place in row.items()}
    left: list[dict[int, list[int]]] = []
    for group, items in enumerate(groups):
        before, alone = -1, defaultdict[int, list[int]](list)
        for index in range(len(items)):
            before = together.get((group, index), before)
            if (group, index) not in together:
                alone[before].append(index)
        left.append(alone)
    return [
        dict(enumerate(indices))
        for before, alone in left[0].items()
        if all(len(other[before]) == len(alone) for other in left)
        for indices in zip(*(other[before] for other in left), strict=True)
    ]
