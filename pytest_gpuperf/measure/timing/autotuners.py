"""Configurations that the autotuners in a callable picked."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def watched() -> Iterator[dict[str, str]]:
    """Collect the configurations that Triton's autotuners pick inside the `with`, by kernel name."""
    picked: dict[str, str] = {}
    # A callable with a Triton autotuner has already imported Triton.
    module = sys.modules.get("triton.runtime.autotuner")
    if module is None:
        yield picked
        return
    run = module.Autotuner.run

    def watched_run(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = run(self, *args, **kwargs)
        name = getattr(getattr(self, "base_fn", self.fn), "__name__", "kernel")
        picked[name] = str(self.best_config)
        return result

    with patch.object(module.Autotuner, "run", watched_run):
        yield picked
