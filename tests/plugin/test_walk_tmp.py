from __future__ import annotations

import json

FOLLOWED = """
import json, sys
import pytest
import pytest_gpuperf

entered = []

def enter(frame, event, _):
    path = frame.f_code.co_filename
    if event == "call" and path.startswith(pytest_gpuperf.__path__[0]):
        entered.append(path[len(pytest_gpuperf.__path__[0])+1:] + ":" + frame.f_code.co_qualname)

@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol():
    sys.setprofile(enter)
    try:
        return (yield)
    finally:
        sys.setprofile(None)
        with open("entered.json", "w") as file:
            json.dump(entered, file)
"""
TEST = """
import torch, simulated_run
x = torch.rand(64)

def square(x):
    simulated_run.launch()
    return x * x

def test_k(gpuperf):
    gpuperf(square, x, expected=lambda x: x * x)
"""


def test_w(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(FOLLOWED)
    pytester.makepyfile(test_k=TEST)
    pytester.runpytest("--gpuperf", "-p", "simulated_run", "-v", "-o", "gpuperf_budget=0.01")
    entered = json.loads((pytester.path / "entered.json").read_bytes())
    json.dump(entered, open("/tmp/forms/entered.json", "w"))
