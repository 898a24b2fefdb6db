"""The size at which a change breaks even that saves GPU time and adds launches."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from pytest_gpuperf.errors import GpuperfError


@dataclass(frozen=True)
class BreakEven:
    """Savings and costs of a change at each size, and the size at which it breaks even."""

    sizes: tuple[float, ...]
    """Ascending."""
    saved_us: tuple[float, ...]
    """GPU time saved at each size, in microseconds a call; negative if it takes longer."""
    cost_us: tuple[float, ...]
    """Cost of the launches added at each size, in microseconds a call."""
    net_us: tuple[float, ...]
    """`saved_us` less `cost_us`: the change pays if it is above 0."""
    size: float | None
    """The change pays at every measured size above this one: interpolated between two measured sizes, or the
    smallest size if it pays at all of them; None if it does not pay at the largest."""

    def __str__(self) -> str:
        """`pays above 283, interpolated between 224 and 448`."""
        smallest, largest = self.sizes[0], self.sizes[-1]
        measured = f"{smallest:g}" if smallest == largest else f"{smallest:g} to {largest:g}"
        if self.size is None:
            if max(self.net_us) > 0:
                return f"does not pay at {largest:g}, the largest measured"
            return f"never pays in the measured range ({measured})"
        if min(self.net_us) > 0:
            return f"pays in all of the measured range ({measured})"
        below = max(size for size, net in zip(self.sizes, self.net_us, strict=True) if net <= 0)
        above = min(size for size in self.sizes if size > below)
        return f"pays above {self.size:.4g}, interpolated between {below:g} and {above:g}"


def break_even(
    sizes: Sequence[float],
    saved_us: Sequence[float],
    launches_added: float | Sequence[float],
    launch_us: float,
) -> BreakEven:
    """Find the size at which a change breaks even that saves GPU time and adds launches.

    At each size the net is `saved_us - launches_added * launch_us`. Between two sizes the net is interpolated
    linearly: if it goes from `a <= 0` at `n` to `b > 0` at `m`, it is 0 at `n + (m - n) * -a / (b - a)`. The
    last such place counts: above it the change pays at every measured size. A more expensive launch never
    makes that size smaller, as long as launches are added at each size.

    The calculation assumes that nothing hides the cost of a launch. That holds inside a CUDA graph, with the
    gap between two nodes as the cost. In eager code the host launches while the GPU works, and the host's
    cost of a launch counts only as far as the GPU waits for it. If the host is the bound with and without the
    change, the savings of the GPU do not show, and the real net is closer to the cost alone.

    Source: the break-even calculation that explained token reduction in a vision transformer: 500 launches at
    8 µs are 4 ms, more than 224 x 224 pixels save and less than 448 x 448 pixels save.

    Args:
        sizes: Pixels of an edge, tokens or elements. All different, in any order.
        saved_us: GPU time without the change less GPU time with it, for each size, in microseconds a call.
        launches_added: Launches of a call with the change less launches without it: one number for all sizes,
            or one for each.
        launch_us: Cost of one launch, in microseconds.

    Raises:
        GpuperfError: The lists differ in length or are empty, a size occurs twice, a number is not finite,
            or `launch_us` is negative.
    """
    added = tuple(launches_added) if isinstance(launches_added, Sequence) else (launches_added,) * len(sizes)
    if not sizes or not len(sizes) == len(saved_us) == len(added):
        raise GpuperfError(
            f"there are {len(sizes)} sizes, {len(saved_us)} times saved and {len(added)} counts of launches",
            expected="the same number of each, and at least one",
        )
    if len(set(sizes)) < len(sizes):
        raise GpuperfError(f"the sizes {', '.join(f'{s:g}' for s in sizes)} are not all different")
    if not all(map(math.isfinite, (*sizes, *saved_us, *added, launch_us))) or launch_us < 0:
        raise GpuperfError(
            f"a launch of {launch_us} µs, or a size, time or count that is not finite",
            expected="finite numbers, and a launch of 0 µs or more",
        )
    rows = sorted(zip(map(float, sizes), map(float, saved_us), map(float, added), strict=True))
    sizes, saved_us, added = zip(*rows, strict=True)
    cost = tuple(count * launch_us for count in added)
    net = tuple(saved - spent for saved, spent in zip(saved_us, cost, strict=True))
    return BreakEven(
        sizes=tuple(sizes),
        saved_us=tuple(saved_us),
        cost_us=cost,
        net_us=net,
        size=_crossing(sizes, net),
    )


def _crossing(sizes: Sequence[float], net_us: Sequence[float]) -> float | None:
    """Return the largest size at which the interpolated net is 0; the smallest size if there is none."""
    below = max((index for index, net in enumerate(net_us) if net <= 0), default=None)
    if below is None:
        return sizes[0]
    if below == len(sizes) - 1:
        return None
    start, end = net_us[below], net_us[below + 1]
    # Rounding must not lead beyond the size that pays.
    return min(sizes[below + 1], sizes[below] + (sizes[below + 1] - sizes[below]) * -start / (end - start))
