"""Screenshots of reports for the pages: `python -m docs.screenshots`, in the root of the repository.

They need playwright (`pip install playwright`) and Chromium (`apt-get install chromium`).
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from playwright.sync_api import sync_playwright

from docs.recorded_history import write_history
from pytest_gpuperf import cli

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from playwright.sync_api import Browser

ROOT = Path(__file__).parent.parent
BROWSERS = ("chromium", "chromium-browser", "google-chrome")


class Screenshot(NamedTuple):
    """One picture of a report, or of the dashboard of a history."""

    file: str
    """Path below `docs/`."""
    arguments: Sequence[str]
    """Arguments of `gpuperf report`; empty for a dashboard."""
    scheme: Literal["light", "dark"]
    height: int
    """Of the window, in pixels."""
    opened: str = ""
    """Text of the row to open, without baselines: the run has other counters; empty for the table alone."""


SCREENSHOTS = (
    Screenshot("report_table.png", ("20261122-235542",), scheme="light", height=700),
    Screenshot(
        "report_details.png",
        (str(ROOT / "benchmarks/results/roofline_run.json"),),
        scheme="dark",
        height=1180,
        opened="test_large_triton",
    ),
    Screenshot("dashboard.png", (), scheme="light", height=860),
)
WIDTH = 1200
"""Of the window, in pixels."""


@contextmanager
def browser() -> Iterator[Browser]:
    """Start the system's Chromium without a window.

    Raises:
        FileNotFoundError: It is not installed.
    """
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        raise FileNotFoundError(f"none of {', '.join(BROWSERS)} is on PATH; type: apt-get install chromium")
    with sync_playwright() as playwright:
        # A container's root has no rights to make a sandbox, and only our own pages are opened.
        chromium = playwright.chromium.launch(executable_path=found, chromium_sandbox=False)
        try:
            yield chromium
        finally:
            chromium.close()


def write_report(arguments: Sequence[str], output: Path, root: Path = ROOT) -> None:
    """Write a report with the baselines and recordings of this repository, or of another one."""
    cli.main(["report", *arguments, "-o", str(output), "--root", str(root)], standalone_mode=False)


def write_dashboard(folder: Path) -> Path:
    """Write the dashboard of a recorded history, and return its page."""
    project = folder / "project"
    project.mkdir()
    write_history(ROOT, project)
    site = folder / "site"
    cli.main(["history", "show", "--site", str(site), "--root", str(project)], standalone_mode=False)
    return site / "index.html"


def main() -> None:
    """Write all screenshots."""
    with tempfile.TemporaryDirectory() as folder, browser() as chromium:
        for shot in SCREENSHOTS:
            report = Path(folder) / "report.html"
            if shot.arguments:
                write_report(shot.arguments, report, Path(folder) if shot.opened else ROOT)
            else:
                report = write_dashboard(Path(folder))
            page = chromium.new_page(
                viewport={"width": WIDTH, "height": shot.height}, color_scheme=shot.scheme
            )
            page.goto(report.as_uri())
            if shot.opened:
                page.fill("input[type=search]", shot.opened)
                page.click("tbody:visible .name button")
                page.wait_for_selector(".details .part")
            page.wait_for_load_state("networkidle")
            page.screenshot(path=ROOT / "docs" / shot.file)
            page.close()
            sys.stdout.write(f"docs/{shot.file}\n")


if __name__ == "__main__":
    main()
