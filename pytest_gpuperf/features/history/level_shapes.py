"""Shapes of a level that changes, and their sums with other quantities without a column for each shape."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    Array: TypeAlias = NDArray[np.float64]
    Indices: TypeAlias = NDArray[np.int64]


class Ramp(NamedTuple):
    """Level that changes from one index to a later one; a step if these follow each other."""

    before: int
    after: int


class Shapes:
    """Ramps from 0 to 1 that go back to 0 at some index, or never."""

    def __init__(self, count: int, before: Indices, after: Indices, end: Indices | None = None) -> None:
        """Take the shapes.

        Args:
            count: Number of points.
            before: Last index with 0 before each ramp.
            after: First index with 1.
            end: First index with 0 again, for steps only; `count` or none if it stays.
        """
        import numpy as np

        self.count = count
        self.before = before
        self.after = after
        self.end = np.full_like(after, count) if end is None else end

    @classmethod
    def of(cls, count: int, ramps: Sequence[Ramp]) -> Shapes:
        """Return the shapes of ramps that stay."""
        import numpy as np

        ends = np.array(ramps, dtype=np.int64).reshape(-1, 2)
        return cls(count, ends[:, 0], ends[:, 1])

    def __len__(self) -> int:
        """Return the number of shapes."""
        return len(self.before)

    def ramp(self, index: int) -> Ramp:
        """Return the ramp of a shape."""
        return Ramp(int(self.before[index]), int(self.after[index]))

    def ramps(self, index: int) -> list[Ramp]:
        """Return the ramp of a shape, and the step that takes it back if there is one."""
        end = int(self.end[index])
        return [self.ramp(index), *([Ramp(end - 1, end)] if end < self.count else [])]

    def some(self, which: Indices) -> Shapes:
        """Return the shapes with these indices."""
        return Shapes(self.count, self.before[which], self.after[which], self.end[which])

    def columns(self) -> Array:
        """Return the value of each shape, a column, at each point."""
        import numpy as np

        at = np.arange(self.count, dtype=float)[:, None]
        ramps = np.clip((at - self.before) / (self.after - self.before), 0.0, 1.0)
        return np.asarray(np.where(at < self.end, ramps, 0.0))

    def dot(self, vectors: Array) -> Array:
        """Return the product of each vector, a column, with each shape: a row for each vector.

        A ramp is the mean of the steps at its indices, so sums of sums from the end are enough.
        """
        import numpy as np

        ahead = _from_each(vectors)
        sums = np.cumsum(ahead, axis=0)
        rise = (sums[self.after] - sums[self.before]) / (self.after - self.before)[:, None]
        return np.asarray((rise - ahead[self.end]).T)

    def dot_squares(self, vector: Array) -> Array:
        """Return the product of a vector with the square of each shape."""
        import numpy as np

        at = np.arange(self.count, dtype=float)
        ahead = _from_each(np.column_stack([vector, vector * at, vector * at**2]))
        low, high = self.before + 1, self.after
        plain, first, second = (ahead[low] - ahead[high]).T
        before = self.before.astype(float)
        rise = (second - 2 * before * first + before**2 * plain) / (high - before) ** 2
        return np.asarray(rise + ahead[high, 0] - ahead[self.end, 0])


def _from_each(vectors: Array) -> Array:
    """Return the sums of columns from each index to the end; 0 for the index after the last."""
    import numpy as np

    sums = np.zeros((len(vectors) + 1, vectors.shape[1]))
    sums[:-1] = np.cumsum(vectors[::-1], axis=0)[::-1]
    return sums
