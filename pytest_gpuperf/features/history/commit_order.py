"""Order of the commits in a history."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from pytest_gpuperf.features.history.history_line import COMMIT
from pytest_gpuperf.processes.git import GitError, run_git

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from pytest_gpuperf.features.history.history_line import HistoryLine


class Order(NamedTuple):
    """Order of the points of a history."""

    by: Literal["commits", "dates"]
    why: str
    """Reason why the order is by dates; else empty."""
    places: Mapping[str, int]
    """Place of each commit; empty if the order is by dates."""

    @property
    def shown(self) -> str:
        """`in the order of the commits in git`, or `in the order of dates: …`."""
        return f"in the order of {'the commits in git' if self.by == 'commits' else f'dates: {self.why}'}"

    def key(self, line: HistoryLine) -> tuple[int, str, str, str]:
        """Return the place of a line; runs of one commit are in the order of their dates."""
        if self.by == "commits":
            return self.places[line.commit], "", line.date, line.run
        return 0, line.commit_date or line.date, line.date, line.run


def order_of(lines: Sequence[HistoryLine], folder: Path) -> Order:
    """Choose the order of a history: that of the commits if the repository knows all of them.

    Args:
        lines: All lines.
        folder: A folder of the repository.
    """
    commits = {line.known_commit for line in lines}
    if "" in commits:
        return Order("dates", "there are runs without a commit", {})
    places = _places(commits, folder)
    if unknown := sorted(commits - set(places)):
        number = f"{len(unknown)} of {len(commits)} commits"
        return Order("dates", f"git does not know {number} here, such as {unknown[0][:7]}", {})
    return Order("commits", "", places)


def commit_date(folder: Path, commit: str) -> str:
    """Return the date of a commit, ISO 8601 in UTC; empty if the repository does not know it."""
    if not COMMIT.fullmatch(commit):
        return ""
    try:
        shown = run_git(
            folder,
            *("show", "--no-patch", "--format=%cd", "--date=format-local:%Y-%m-%dT%H:%M:%SZ"),
            f"{commit}^{{commit}}",
            environment={"TZ": "UTC0"},
        )
    except GitError:
        return ""
    return shown.decode("ascii", errors="replace").strip()


def _places(commits: set[str], folder: Path) -> dict[str, int]:
    """Return the place of each commit that the repository knows, parents before children."""
    listing = ("rev-list", "--topo-order", "--reverse", "--ignore-missing", "--stdin")
    try:
        listed = run_git(folder, *listing, stdin="".join(f"{commit}\n" for commit in commits).encode())
    except GitError:
        return {}
    known = (commit for commit in listed.decode("ascii").split() if commit in commits)
    return {commit: place for place, commit in enumerate(known)}
