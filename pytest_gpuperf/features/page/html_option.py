"""The page of a run, at its end: `--gpuperf-html`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pytest_gpuperf.features.page.page import page_pieces
from pytest_gpuperf.features.page.run_section import Section
from pytest_gpuperf.features.page.source_links import source_links
from pytest_gpuperf.records.files import show_path, write_files
from pytest_gpuperf.report.overwrite_check import refuse_other_file

if TYPE_CHECKING:
    from pytest_gpuperf.session.run_report import RunReport


def write_html(report: RunReport) -> None:
    """Write the report to the file that the user names.

    Raises:
        GpuperfError: The file exists, and this tool has not written it.
        OSError: The file cannot be written.
    """
    settings, summary = report.judge.settings, report.summary()
    path = Path(settings.of_features["html"])
    refuse_other_file(path)
    links = source_links(settings.root)
    section = Section(report.run(), summary, report.judge.expected, links=links)
    write_files({path: page_pieces([section])})
    report.news.note(f"report written to {show_path(path)}")
