"""`gpuperf diff-code`: list the compiled kernels whose machine code differs from that of a commit."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pytest_gpuperf.cli.output import output_form, show
from pytest_gpuperf.cli.project import Project, project_options
from pytest_gpuperf.report.show import count
from pytest_gpuperf.report.table import Column, Report, Table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_gpuperf.against.compiled import Difference
    from pytest_gpuperf.report.command_json import CodeDifferences, ComparedKernel
    from pytest_gpuperf.report.table import Tone

TONES: dict[str, Tone] = {"changed": "worse", "unknown": "unsure", "added": "new", "removed": "absent"}


@click.command("diff-code")
@click.argument("ref")
@click.argument("tests", nargs=-1)
@output_form
@project_options
def command(project: Project, ref: str, tests: tuple[str, ...], form: str) -> None:
    """List kernels whose machine code differs from a commit's.

    REF is a commit, branch or tag; TESTS are arguments for pytest. Both sides compile the kernels of
    `gpuperf.static`, and no GPU is used. Other tests are listed as unknown.
    """
    from pytest_gpuperf.against.compiled import compile_both, differences
    from pytest_gpuperf.against.git import Repository
    from pytest_gpuperf.records.passes import Invocation

    root = project.root.resolve()
    repository = Repository.around(root, "gpuperf diff-code ")
    commit = repository.commit(ref)
    here = Path.cwd().resolve()
    cwd = here if here.is_relative_to(repository.root) else root
    old, new = compile_both(repository, commit, Invocation(tests, cwd, root))
    shared = sorted({*old.outcomes.shared, *new.outcomes.shared})
    show(_report(str(commit), differences(old, new), shared), form)


def _report(commit: str, found: Sequence[Difference], shared: list[str]) -> Report:
    rows: list[ComparedKernel] = [
        {
            "test": one.nodeid,
            "label": one.label,
            "kernel": kernel.name if (kernel := one.new or one.old) else "",
            "state": one.state,
            "differs": list(one.differs),
            "old_code": one.old.code if one.old else "",
            "new_code": one.new.code if one.new else "",
        }
        for one in found
    ]
    shown = [row for row in rows if row["state"] != "unchanged"]
    columns = [
        Column("test", [f"{row['test']} ({row['label']})".removesuffix(" ()") for row in shown], "name"),
        Column(
            "code", [row["state"] for row in shown], "outcome", tones=[TONES[row["state"]] for row in shown]
        ),
        Column("differs", [", ".join(row["differs"]) for row in shown], "detail"),
    ]
    notes = [_counted(rows, commit)]
    if shared:
        notes.append(
            f"git ignores these modules, so both sides ran those of the checkout: {', '.join(shared)}"
        )
    data: CodeDifferences = {"commit": commit, "kernels": rows, "shared": shared}
    records = [{**row, "differs": "; ".join(row["differs"])} for row in rows]
    return Report([Table(columns if shown else (), notes=notes)], records, data)


def _counted(rows: Sequence[ComparedKernel], commit: str) -> str:
    """Return the line that counts: `2 kernels changed since main (1a2b3c4), 30 unchanged`."""
    states = Counter(row["state"] for row in rows)
    parts = [
        f"{count(states['changed'], 'kernel')} changed since {commit}",
        f"{states['unchanged']} unchanged",
    ]
    parts += [f"{states[name]} {name}" for name in ("added", "removed", "unknown") if states[name]]
    return ", ".join(parts)
