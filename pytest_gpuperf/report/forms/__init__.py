"""The output forms of all commands. A new form is one module with `render`, and one row here."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pytest_gpuperf.report.forms import as_csv, as_json, as_markdown, as_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_gpuperf.report.table import Report, Screen


class Form(NamedTuple):
    """One way to write a report."""

    render: Callable[[Report, Screen], str]
    help: str
    is_raw: bool = False
    """True if it has the text of files as it is, which a terminal or a log could execute."""


FORMS = {
    "text": Form(as_text.render, "Print tables for a terminal (the default)."),
    "markdown": Form(as_markdown.render, "Print Markdown."),
    "csv": Form(as_csv.render, "Print CSV, with all digits.", is_raw=True),
    "json": Form(as_json.render, "Print JSON, with all digits."),
}
"""Every form by the name that users type."""


def render(report: Report, form: str, screen: Screen) -> str:
    """Return a report in one of `FORMS`."""
    return FORMS[form].render(report, screen)
