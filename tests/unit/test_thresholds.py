"""The constants that decide times."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path

from pytest_gpuperf.statistics import thresholds

ROOT = Path(__file__).parents[2]


def test_at_most_ten_constants_decide_times_each_with_its_sample() -> None:
    body = ast.parse(inspect.getsource(thresholds)).body
    names = [one for one in body if isinstance(one, ast.Assign)]
    assert len(names) <= 10
    texts = [ast.literal_eval(body[body.index(one) + 1].value) for one in names]  # type: ignore[attr-defined]
    assert all(re.search(r"\d+ %|\d of \d", text) for text in texts)
    named = re.findall(r"`(\S+/\S+)`", inspect.getsource(thresholds))
    assert named
    assert all(list(ROOT.glob(name)) for name in named)
