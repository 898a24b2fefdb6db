"""The machine code of two runs side by side: instructions by opcode, and a difference of the text."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import unified_diff
from typing import TYPE_CHECKING

from pytest_gpuperf.compare.changes import change_of
from pytest_gpuperf.compare.comparison import Cell, Comparison, Line
from pytest_gpuperf.compare.pairing import pair_up
from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.measure.static.sass import disassemble, opcodes

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from pytest_gpuperf.compare.choosing import Choice, Entry
    from pytest_gpuperf.records import LaunchedKernel

CONTEXT = 2
"""Unchanged instructions around each difference."""
ALL = "all instructions"


@dataclass(frozen=True)
class _Pair:
    """A kernel with other code in the second run."""

    subject: str
    old: LaunchedKernel
    new: LaunchedKernel


def compare_instructions(
    choices: Sequence[Choice], load: Callable[[str], bytes | None], tool: Path
) -> Comparison:
    """Compare the instructions of the kernels whose code differs.

    Args:
        choices: Measurements of two runs.
        load: Returns the machine code with a hash; None if it was not kept.
        tool: Path of `nvdisasm`.

    Raises:
        GpuperfError: There are not two runs, no run has hashes, or the code cannot be read.
    """
    if len(choices) != 2:
        raise GpuperfError(
            f"--sass compares the code of two runs or tests, and there are {len(choices)}",
            next_step="type `gpuperf compare OLD NEW --sass`",
        )
    pairs, same, without = _pairs(*choices)
    if not pairs and not same:
        raise GpuperfError(
            "no kernel of both has a hash of its code",
            expected="runs of pytest --gpuperf on a GPU with --gpuperf-code=on, the default",
        )
    lines: list[Line] = []
    notes = [f"the code of {same} more {'kernel is' if same == 1 else 'kernels is'} the same"] if same else []
    notes += [f"the code of {name} is not known in both" for name in without]
    for pair in pairs:
        found = [
            _text(kernel, choice, load, tool)
            for kernel, choice in zip((pair.old, pair.new), choices, strict=True)
        ]
        old, new = found
        if old is None or new is None:
            missing = choices[old is not None].run.id
            notes.append(
                f"{pair.subject}: its code was not kept in {missing}, or is pruned: measure it again"
            )
            continue
        lines += _lines(pair.subject, opcodes(old), opcodes(new))
        notes += [f"{pair.subject}:", *_difference(old, new)]
    runs = [choice.run.id for choice in choices]
    columns = runs if runs[0] != runs[1] else [choice.ref for choice in choices]
    return Comparison(tuple(dict.fromkeys(runs)), tuple(columns), tuple(lines), tuple(notes))


def _pairs(old: Choice, new: Choice) -> tuple[list[_Pair], int, list[str]]:
    """Return the kernels with other code, the number of those with the same, and names of those without."""
    rows = pair_up(
        [old.entries, new.entries],
        lambda entry: (entry.test.nodeid, entry.label),
        lambda entry: entry.label,
    )
    pairs: dict[tuple[str, str], _Pair] = {}
    same: set[str] = set()
    without: dict[str, None] = {}
    for row in rows:
        if len(row) < 2:
            continue
        entries = old.entries[row[0]], new.entries[row[1]]
        kernels = [_kernels(entry) for entry in entries]
        for both in pair_up(kernels, lambda one: (one.name, one.code), lambda one: one.name):
            if len(both) < 2:
                continue
            before, after = kernels[0][both[0]], kernels[1][both[1]]
            if not before.code or not after.code:
                without[before.name] = None
            elif before.code == after.code:
                same.add(after.code)
            else:
                subject = f"{entries[1].shown}: {after.name}"
                pairs.setdefault((before.code, after.code), _Pair(subject, before, after))
    return list(pairs.values()), len(same), list(without)


def _kernels(entry: Entry) -> Sequence[LaunchedKernel]:
    code = entry.measurement.code
    return code.kernels if code is not None else ()


def _text(
    kernel: LaunchedKernel, choice: Choice, load: Callable[[str], bytes | None], tool: Path
) -> list[str] | None:
    instructions = load(kernel.code)
    if instructions is None:
        return None
    return disassemble(instructions, choice.run.environment.gpu.compute_capability, tool)


def _lines(subject: str, old: Counter[str], new: Counter[str]) -> Iterator[Line]:
    """Return the number of all instructions, then of each opcode whose number differs, the largest first."""
    counts = [(ALL, old.total(), new.total())]
    changed = [(name, old[name], new[name]) for name in old | new if old[name] != new[name]]
    counts += sorted(changed, key=lambda one: (-abs(one[2] - one[1]), one[0]))
    for name, before, after in counts:
        yield Line(subject, name, "", (Cell(before), Cell(after, change_of(name, before, after))))


def _difference(old: Sequence[str], new: Sequence[str]) -> Iterator[str]:
    """Yield the lines of a unified difference, without its header."""
    for number, line in enumerate(unified_diff(old, new, n=CONTEXT, lineterm="")):
        if number > 1:
            yield line
