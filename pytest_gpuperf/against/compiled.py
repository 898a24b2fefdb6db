"""Compile the kernels of the tests of two commits, without a GPU, and compare their machine code."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import msgspec
from msgspec.structs import replace

from pytest_gpuperf.against.compile_plugin import COMPILES_ENV, Outcomes, outcomes_file
from pytest_gpuperf.against.sides import Sides
from pytest_gpuperf.against.worktree import old_tree
from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.measure.static.kernel import arch_of, kernels_of
from pytest_gpuperf.processes.children import run_child
from pytest_gpuperf.processes.signals import ended_in_order
from pytest_gpuperf.records.runs import RunStore, load_run
from pytest_gpuperf.settings.settings import SIDE_ENV, STATE_ENV

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_gpuperf.against.git import Commit, Repository
    from pytest_gpuperf.records import StaticKernel, TestRecord
    from pytest_gpuperf.records.passes import Invocation
    from pytest_gpuperf.statistics.sequential import Side

State = Literal["changed", "unchanged", "added", "removed", "unknown"]
_BROKEN = (2, 3, 4)
"""Exit status of pytest that did not run the tests: interrupted, an internal error, wrong usage."""
_FACTS = ("registers_per_thread", "shared_memory_bytes", "block_size", "spills", "stack_bytes", "code_bytes")
_WORDS = ("tensor_instructions", "copy_instructions")


@dataclass(frozen=True)
class Difference:
    """A kernel in the old and the new code, or a test without a compiled kernel."""

    nodeid: str
    label: str
    """Label with the architecture; empty if the test compiled nothing."""
    state: State
    differs: tuple[str, ...] = ()
    """The differences, or the reason why they are unknown."""
    old: StaticKernel | None = None
    new: StaticKernel | None = None


@dataclass(frozen=True)
class Compilation:
    """The kernels of one side, by node id and label."""

    kernels: dict[tuple[str, str], StaticKernel]
    outcomes: Outcomes

    def why_none(self, nodeid: str) -> str:
        """Return the reason why a test compiled nothing; empty if it ran to its end."""
        path = nodeid.partition("::")[0]
        return self.outcomes.reasons.get(nodeid) or self.outcomes.reasons.get(path, "")


def compile_both(
    repository: Repository, commit: Commit, invocation: Invocation
) -> tuple[Compilation, Compilation]:
    """Run the tests of both sides as on a machine without a GPU: only `gpuperf.static` does anything.

    Args:
        repository: The checkout of the tests.
        commit: The old code.
        invocation: Arguments of pytest, and where it runs.

    Returns:
        Old and new code.

    Raises:
        GpuperfError: A side cannot run, or imports the modules of the other.
    """
    with ExitStack() as stack:
        stack.enter_context(ended_in_order())
        old = stack.enter_context(old_tree(repository, commit))
        sides = Sides(repository.root, old, invocation)
        return _compile(sides, "A", str(commit)), _compile(sides, "B", "the checkout")


def _compile(sides: Sides, side: Side, name: str) -> Compilation:
    plan = sides.plan_file(side)
    plan.write_bytes(msgspec.json.encode(sides.plan(side, (), 0)))
    state, log = plan.with_suffix(".state"), plan.with_suffix(".log")
    environment = sides.environment(side, plan)
    del environment[SIDE_ENV]
    environment |= {COMPILES_ENV: str(plan), STATE_ENV: str(state), "CUDA_VISIBLE_DEVICES": ""}
    command = [
        *(*sides.command(side), "-p", "no:cacheprovider"),
        *("--gpuperf-replay=never", "--gpuperf-update=never", "--gpuperf-against="),
        "--continue-on-collection-errors",
    ]
    status = run_child(command, cwd=sides.cwd(side), env=environment, log=log, poll=lambda: None)
    written = outcomes_file(plan)
    if status in _BROKEN or not written.is_file():
        lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
        errors = [line for line in lines if line.startswith(("ERROR", "E  "))] or lines[-1:]
        said = sides.plain(errors[0]) if errors else f"exit status {status}"
        raise GpuperfError(
            f"the tests of {name} do not run: {said}",
            expected="tests that pytest collects in both",
            next_step="name tests that both have: gpuperf diff-code REF TEST",
        )
    outcomes = msgspec.json.decode(written.read_bytes(), type=Outcomes)
    if outcomes.problem:
        raise GpuperfError(f"the kernels of {name} are not known: {outcomes.problem}")
    kernels = {}
    reasons = {nodeid: sides.plain(reason) for nodeid, reason in outcomes.reasons.items()}
    for nodeid, test in _run_in(state).items():
        measurements = test.measurements
        if not test.failure:
            # It came to its end, and only its verdict failed.
            reasons.pop(nodeid, None)
        for label in measurements:
            arch = arch_of(label)
            bare = "main" if label == arch else label.removesuffix(f"[{arch}]")
            found = kernels_of({label: measurements[label]}, bare) if arch else {}
            if arch in found:
                kernels[nodeid, label] = found[arch]
    return Compilation(kernels, replace(outcomes, reasons=reasons))


def _run_in(state: Path) -> dict[str, TestRecord]:
    """Return the tests of the only run in a folder, by node id; none if pytest chose no test."""
    store = RunStore(state)
    return {test.nodeid: test for name in store.ids() for test in load_run(store.resolve(name)).tests}


def differences(old: Compilation, new: Compilation) -> list[Difference]:
    """Compare the kernels of both sides, in the order of the tests; unknown ones have the reason."""
    found = []
    for nodeid in dict.fromkeys((*new.outcomes.tests, *old.outcomes.tests, *_files(old), *_files(new))):
        labels = dict.fromkeys(label for test, label in (*new.kernels, *old.kernels) if test == nodeid)
        for label in labels:
            pair = old.kernels.get((nodeid, label)), new.kernels.get((nodeid, label))
            found.append(_difference(nodeid, label, *pair, old, new))
        # A test may end before the last of its kernels.
        reason = new.why_none(nodeid) or old.why_none(nodeid)
        if reason:
            found.append(Difference(nodeid, "", "unknown", (reason,)))
    return found


def _files(side: Compilation) -> list[str]:
    """Return the files that could not be collected."""
    return [name for name in side.outcomes.reasons if name and "::" not in name]


def _difference(
    nodeid: str,
    label: str,
    before: StaticKernel | None,
    after: StaticKernel | None,
    old: Compilation,
    new: Compilation,
) -> Difference:
    if before is None or after is None:
        side = old if before is None else new
        reason = side.why_none(nodeid)
        if reason:
            name = "old" if before is None else "new"
            return Difference(nodeid, label, "unknown", (f"{name} code: {reason}",), before, after)
        return Difference(nodeid, label, "added" if before is None else "removed", (), before, after)
    differs = tuple(_differing(before, after))
    return Difference(nodeid, label, "changed" if differs else "unchanged", differs, before, after)


def _differing(old: StaticKernel, new: StaticKernel) -> list[str]:
    """Describe the differences: `registers_per_thread 32 to 40`; empty if code and launch are the same."""
    parts = [
        f"{name} {getattr(old, name)} to {getattr(new, name)}"
        for name in ("name", *_FACTS)
        if getattr(old, name) != getattr(new, name)
    ]
    for name in _WORDS:
        before, after = (" ".join(getattr(kernel, name)) or "none" for kernel in (old, new))
        parts += [f"{name} {before} to {after}"] * (before != after)
    return parts or ["instructions"] * (old.code != new.code)
