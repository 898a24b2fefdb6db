"""Leave the code of torch.compile from test to test: the plugin forgets it before each test that measures."""

from __future__ import annotations

from pytest_gpuperf.plugin import hooks
from pytest_gpuperf.session import seeds


def pytest_configure() -> None:
    """Replace the function in the process of the tests, too: xdist starts it with the same plugins."""
    for module in (hooks, seeds):
        vars(module)["forget_compiled_code"] = lambda: None
