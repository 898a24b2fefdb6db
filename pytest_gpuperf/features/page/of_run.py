"""Another run in the place of the baseline files, to compare a run with."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pytest_gpuperf.baseline.merge import plan
from pytest_gpuperf.baseline.store import BaselineStore

if TYPE_CHECKING:
    from pytest_gpuperf.records import Run
    from pytest_gpuperf.records.baseline import Baseline


class RunAsBaseline(BaselineStore):
    """Baselines of one session, made from a run; nothing is read from the disk and nothing written.

    Limits and tolerances, which are made by hand, are not in them.

    Args:
        run: A run of one GPU model.
    """

    def __init__(self, run: Run) -> None:
        super().__init__(Path(f"run {run.id}"))
        self._made = plan(run, self, "all", 0.0).files

    def load(self, slug: str, suite: str) -> Baseline | None:
        """Return the values of a suite; None if the run has none."""
        return self._made.get(self.path(slug, suite))

    def read(self, slug: str, suite: str) -> Baseline | None:
        """Return None: the values begin with this run."""
        del slug, suite
        return None

    def slugs(self) -> list[str]:
        """Return the GPU models of the run, sorted."""
        return sorted({path.parent.name for path in self._made})
