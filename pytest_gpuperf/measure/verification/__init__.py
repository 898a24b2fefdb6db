"""Verify that timed calls did their work.

`Timer.time` enters here once: it hands a `Verifier` the callable and its time, and gets the time back with
what speaks against it. The threat is a callable that looks faster than it is, by intent or by mistake.

1. **Records** (`cupti_records.py`). CUPTI records a few single calls, on all streams and devices. Work that
   the capture does not have, work before or after a call, and calls that launch nothing prove that the time
   does not contain all of it. In mode `auto` the kernels are timed instead.
2. **State** (`verifier.py`). Arguments that must stay, settings of the process and functions of libraries
   have to be as before the timing.
3. **Re-execution** (`verifier.py`, `reexecution.py`). Some of the timed calls run once more, by the
   instrument of their mode: calls of a graph without the callable, plain calls, and calls on tensors
   elsewhere. They run on the timed values, then on other ones in the same memory (`perturbed_inputs.py`),
   the first time into poisoned memory, and those of a graph each time. Outputs are compared with the
   reference, or without one with a plain call on copies of the arguments.
4. **Seen and unseen values** (`reexecution.py`). A call must not take longer on values that it has not seen,
   into memory without a former output, nor by itself: it could know by the stack or the memory who looks.

A floor by the hardware's limits is judged with the limits of the test (`judge/time_lower_bound.py`).

Only proof refuses a time: a wrong output on the timed values, changed state, records of work that the time
does not contain. All else is a doubt, since honest code may behave so: a cache of packed weights is stale for
other weights, and streams overlap in a series of calls. Doubts are kept with the time, and the test is warned
of them. `gpuperf_verify = strict` refuses for doubts, too; with `off` nothing here runs.

If outputs cannot be compared, such as random ones, the reason is kept (`Verification.not_verified`); only
`strict` takes that for a doubt. After half of `reexecution.MOST_SECONDS`, no more calls are run again.

The callable runs in this process and may know all of this. So the calls that run again and the other values
are chosen by the system's random numbers, the reference runs after the callable, and clocks are those from
before the first test (`device/originals.py`). What a call writes is restored in any case
(`measure/reachable_tensors.py`).
"""
