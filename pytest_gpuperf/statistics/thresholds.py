"""The constants that decide times, each with its sample.

The samples are `benchmarks/results/gate_power*.jsonl.gz`, the shares those of `gate_power.json` next to them.
"""

from __future__ import annotations

SCREEN_PCT = 0.5
"""Width of the screen for one stored session of the same card, on either side: outside are 0.2 % of the times
of unchanged kernels at full clock, and 98 % of those with 1 % more work."""
NOISY_PCT = 1.5
"""The same below the full clock, as at the power limit: outside are 12 % of the times of unchanged kernels,
and 95 % of those with 5 % more work; none and all for calls that wait for the GPU. Also if a clock is not
known: as measured, 5 of 7,405 pairs of hot times of unchanged kernels at full clock differ by more, 1.6 %."""
HELD_BACK = 0.97
"""Share of the highest SM clock below which the power limit or heat holds a clock back: none of 3,665 clocks
is from 93.5 to 97.5 % of the highest."""
MACHINE_PCT = 25.0
"""What a machine alone may change. In times by the host's clock: outside of this screen are 3 of 16 pairs of
sessions of unchanged calls on a card, outside of twice as much 5 of 48 on two cards
(`baselines/*/test_token_reduction.json`). In turn all widths are as much larger: of 8 such suspects on three
hosts, none is slower; two would be by the others' widths. In fresh processes on another machine than the
baseline's: torch's layer norm, unchanged, was 12.6 % faster there (H100, driver 580.159.04, commit 5713545,
2026-11-26)."""
FRESH = 3
"""Fresh processes that confirm a change. They call slower 0 of 2,449 unchanged times at full clock, 1 of 296
below it and 3 of 190 cold ones, and 97 % of those at full clock with 1 % more work."""
LARGE_PCT = 4.0
"""Change in turn that needs little evidence, two restarts: none of 8,593 couples of restarts of unchanged
code, one of each order, has both beyond 2 % on the same side. Equal hashes explain none that is larger, and
two restarts that are further apart from each other need more."""
ALIKE_PCT = 0.15
"""Largest change in turn that counts as none, and the least spread between restarts of one order. Means of
ten restarts of unchanged kernels differ from 0 by 0.08 % on three cards and 0.17 % on a fourth; nine in ten
kernels spread by less. A noisier one counts as noisy as it is."""
LOOKS = (2, 4, 6, 10)
"""Numbers of restarts after which a comparison may end; even, as the sides go ahead in turn. They find 0.5 %
more work in 92 % of the series of kernels from 5 µs on, and 1 % in all, in 1.4 s a test."""
LEVEL = 1e-4
"""Share of unchanged code that the last look may call slower; the same for faster. By the spread of its
restarts, the least likely of 165 series of unchanged kernels has 0.6 %; all series with 1 % more work, from
5 µs on, are below 0.01 % after ten restarts."""
SURE = 3.0
"""Standard errors of an interval: of 13,200 intervals of unchanged kernels in turn, 0.3 % leave out 0. From
as many on, the effect of the clock on blocks in turn is sure."""
