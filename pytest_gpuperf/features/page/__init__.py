"""The results as one HTML page, with pictures: rooflines and times.

Command: `gpuperf report`. Option: `--gpuperf-html`.
A picture is plain data (`picture`), which `svg_renderer` draws for pages and files (`picture_file`).
Public to other features: `picture`, `picture_file`, `time_pictures`, `svg_renderer`, `markup`, `run_section`,
and `source_links`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_gpuperf.registry import Option

if TYPE_CHECKING:
    from pytest_gpuperf.registry import Registry
    from pytest_gpuperf.session.run_report import End, RunReport


def register(registry: Registry) -> None:
    """Add the parts named above."""
    registry.commands["report"] = "pytest_gpuperf.features.page.command"
    registry.options.append(
        Option(
            "html",
            "",
            "write the results as one HTML page to this file",
            metavar="FILE",
            unset="none",
            asks=True,
        )
    )
    registry.outputs.append(_write)


def _write(report: RunReport, _end: End) -> None:
    if report.judge.settings.of_features["html"]:
        from pytest_gpuperf.features.page.html_option import write_html

        write_html(report)
