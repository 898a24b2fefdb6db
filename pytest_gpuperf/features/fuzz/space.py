"""All cases of a search: what Hypothesis draws, and the fixed cases that come first."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import count, cycle
from typing import TYPE_CHECKING

from pytest_gpuperf.features.fuzz.case import FuzzCase
from pytest_gpuperf.features.fuzz.layouts import layouts_for
from pytest_gpuperf.features.fuzz.shape_signature import (
    ANY_SIZE,
    LEADING,
    MOST_ELEMENTS,
    MOST_LEADING,
    nearest,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import torch

    from pytest_gpuperf.features.fuzz.shape_signature import Signature

    Choose = Callable[[str, int, int], int]
    """Chooses a number, given its name and its range."""

TILES = (16, 32, 64, 128, 256, 512, 1024, 2048, 4096)
PRIMES = (7, 97, 509, 8191)
SMALL = 3
"""Size of the dimensions that a fixed case does not look at."""
MOST_SEED = 3
LARGE = 2**31
"""Elements at which an index no longer fits into 32 bits."""
ROW = 4096
"""Length of the rows of so many elements."""


@dataclass(frozen=True)
class Space:
    """Sizes, types and layouts of the cases."""

    shapes: str
    signature: Signature
    dtypes: tuple[torch.dtype, ...]
    layouts: tuple[str, ...]
    device: str

    def build(self, given: Choose) -> FuzzCase:
        """Make a case from numbers; smaller numbers make simpler cases.

        Args:
            given: Returns a number, for its name and a range of more than one number.
        """

        def choose(name: str, low: int, high: int) -> int:
            return given(name, low, high) if low < high else low

        dtype = self.dtypes[_pick(choose, "dtype", len(self.dtypes))]
        room, leading, sizes = MOST_ELEMENTS, [], {}
        if self.signature.has_leading:
            for at in range(_pick(choose, "leading", MOST_LEADING + 1)):
                leading.append(choose(f"leading {at}", 0, 5))
                room //= max(1, leading[-1])
        for name, allowed in self.signature.allowed.items():
            if isinstance(allowed, tuple):
                sizes[name] = allowed[_pick(choose, f"size {name}", len(allowed))]
            else:
                sizes[name] = _size(choose, name, allowed, room)
            room //= max(1, sizes[name])
        shapes = self.signature.shapes(sizes, tuple(leading))
        layouts = []
        for at, shape in enumerate(shapes):
            possible = layouts_for(len(shape), self.layouts)
            layouts.append(possible[_pick(choose, f"layout {at}", len(possible))])
        seed = choose("seed", 0, MOST_SEED)
        return FuzzCase(
            self.shapes, sizes, dtype, tuple(layouts), tuple(leading), seed=seed, device=self.device
        )

    def nearest(self, wanted: FuzzCase) -> tuple[FuzzCase, list[int]]:
        """Return the case of this space that is most like another one, and the numbers that make it."""
        numbers = []

        def choose(name: str, low: int, high: int) -> int:
            numbers.append(min(max(self._number(wanted, name), low), high))
            return numbers[-1]

        return self.build(choose), numbers

    def _number(self, case: FuzzCase, name: str) -> int:
        kind, _, at = name.partition(" ")
        if name == "dtype":
            return self.dtypes.index(case.dtype)
        if name == "leading":
            return len(case.leading)
        if name == "seed":
            return case.seed
        if kind == "leading":
            return case.leading[int(at)]
        if kind == "layout":
            shape = self.signature.shapes(case.sizes, case.leading)[int(at)]
            possible = layouts_for(len(shape), self.layouts)
            layout = case.layouts[int(at)]
            return possible.index(layout) if layout in possible else 0
        if kind == "up-to":
            return next((i for i, size in enumerate(SIZES) if size >= case.sizes[at]), len(SIZES))
        allowed = self.signature.allowed[at]
        return (
            allowed.index(nearest(allowed, case.sizes[at])) if isinstance(allowed, tuple) else case.sizes[at]
        )

    def corpus(self) -> list[FuzzCase]:
        """Return the fixed cases, those first that find most; the types take turns."""
        found: dict[str, FuzzCase] = {}
        dtypes = cycle(self.dtypes)
        for sizes, (at, layout), leading in self._fixed():
            tensors = range(len(self.signature.operands))
            layouts = tuple(layout if at in (one, -1) else "" for one in tensors)
            leading = leading if self.signature.has_leading else ()
            case, _ = self.nearest(
                FuzzCase(self.shapes, sizes, next(dtypes), layouts, leading, device=self.device)
            )
            found.setdefault(str(case), case)
        return list(found.values())

    def large(self) -> list[FuzzCase]:
        """Return at most one case with a tensor of just more than 2**31 elements, of the smallest type."""
        dtype = min(self.dtypes, key=lambda one: one.itemsize)
        for operand in self.signature.operands:
            names = [name for name in operand if name != LEADING and not name.isdigit()]
            grows = LEADING if LEADING in operand else next(iter(names), "")
            if not grows:
                continue
            allowed = self.signature.allowed
            sizes = dict.fromkeys(allowed, 1)
            # Not one long row: a sum over all of it would differ by rounding alone.
            if names and names[-1] != grows:
                sizes[names[-1]] = nearest(allowed[names[-1]], ROW)
            row = (ROW,) if operand == (LEADING,) else ()
            fixed = math.prod(row) * math.prod(
                int(name) if name.isdigit() else sizes[name] for name in operand if name != LEADING
            )
            large = _least_beyond(LARGE / max(1, fixed), operand.count(grows))
            leading = (large, *row) if grows == LEADING else ()
            if not leading:
                sizes[grows] = large
            shapes = self.signature.shapes(sizes, leading)
            layouts = tuple(layouts_for(len(shape), self.layouts)[0] for shape in shapes)
            case = FuzzCase(self.shapes, sizes, dtype, layouts, leading, device=self.device)
            if all(allowed[name] is ANY_SIZE or size in allowed[name] for name, size in sizes.items()):
                return [case]
        return []

    def _fixed(self) -> Iterator[tuple[dict[str, int], tuple[int, str], tuple[int, ...]]]:
        names = list(self.signature.allowed)
        plain, pairs = (-1, ""), (2, SMALL)

        def every(size: int) -> dict[str, int]:
            return dict.fromkeys(names, size)

        def one(name: str, size: int) -> dict[str, int]:
            return {**every(SMALL), name: size}

        for size in (1, SMALL, 33, 65):
            yield every(size), plain, ()
        for name in reversed(names):
            for size in (1000, 129, 2049):
                yield one(name, size), plain, ()
        for layout in self.layouts[1:]:
            yield every(33), (-1, layout), ()
        yield every(0), plain, ()
        for name in names:
            yield one(name, 0), plain, ()
        for leading in ((2,), pairs, (2, SMALL, 1), (0,)):
            yield every(17), plain, leading
        for at in range(len(self.signature.operands)):
            for layout in self.layouts[1:]:
                yield {name: 31 + 2 * number for number, name in enumerate(names)}, (at, layout), ()
        for tile in TILES:
            for near in (tile + 1, tile - 1, tile):
                for name in reversed(names):
                    yield one(name, near), plain, ()
                yield every(near), plain, ()
        for prime in PRIMES:
            for name in reversed(names):
                yield one(name, prime), plain, pairs


def _least_beyond(product: float, power: int) -> int:
    """Return the least number whose power is more than a product."""
    return next(one for one in count(int(product ** (1 / power))) if one**power > product)


SIZES: Sequence[int] = sorted(
    {1, 2, SMALL, *PRIMES, *(tile + more for tile in TILES for more in (-1, 0, 1)), 16_384, 65_536, 2**20}
)
"""Upper bounds of random sizes: without them nearly all would be large."""


def _size(choose: Choose, name: str, allowed: range, room: int) -> int:
    most = max(allowed.start, min(allowed.stop - 1, room))
    up_to = choose(f"up-to {name}", 0, len(SIZES))
    high = most if up_to == len(SIZES) else min(most, max(allowed.start, SIZES[up_to]))
    return choose(f"size {name}", allowed.start, high)


def _pick(choose: Choose, name: str, count: int) -> int:
    return choose(name, 0, count - 1)
