"""The page of a run, at its end: `--gpuperf-html`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pytest_gpuperf.features.page.page import page_pieces
from pytest_gpuperf.features.page.section import Section
from pytest_gpuperf.features.page.source_links import source_links
from pytest_gpuperf.records.json_files import show_path
from pytest_gpuperf.records.writing import write_files
from pytest_gpuperf.report.own_files import refuse_other_file
from pytest_gpuperf.session.base import OTHER_FILE

if TYPE_CHECKING:
    from pytest_gpuperf.session.base import Runner


def write_html(runner: Runner) -> None:
    """Write the report to the file that the user names.

    Raises:
        GpuperfError: The file exists, and this tool has not written it.
        OSError: The file cannot be written.
    """
    run, path = runner.shown_run, Path(runner.settings.of_features["html"])
    if run is None:
        return
    refuse_other_file(path, OTHER_FILE)
    links = source_links(runner.settings.root)
    section = Section(run, runner.summary(), runner.expected, links=links, folder=runner.folder)
    write_files({path: page_pieces([section])})
    runner.notices.append(f"report written to {show_path(path)}")
