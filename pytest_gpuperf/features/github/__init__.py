"""Results on GitHub: annotations, the summary of a step, a comment on a pull request, merged shards.

Commands: `gpuperf comment`, `gpuperf merge`.
Appends a summary in Markdown to the file of `GITHUB_STEP_SUMMARY`.
Adds `::error` lines below the summary under GitHub Actions.
Public to other features: `merging`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_gpuperf.registry import Registry
    from pytest_gpuperf.report.rows import Summary
    from pytest_gpuperf.session.run_report import End, RunReport


def register(registry: Registry) -> None:
    """Add the parts named above."""
    registry.commands["comment"] = "pytest_gpuperf.features.github.comment_command"
    registry.commands["merge"] = "pytest_gpuperf.features.github.merge_command"
    registry.outputs.append(_write_markdown)
    registry.log_lines.append(_annotations)


def _write_markdown(report: RunReport, _end: End) -> None:
    from pytest_gpuperf.features.github.step_summary import write_markdown

    write_markdown(report.summary())


def _annotations(summary: Summary) -> Iterable[str]:
    from pytest_gpuperf.features.github.annotations import annotate

    return annotate(summary)
