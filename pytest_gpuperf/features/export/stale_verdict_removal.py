"""Remove the verdicts of an earlier run: if this one is refused, they would look like its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_gpuperf.plugin.internal_errors import guarded
from pytest_gpuperf.settings.options import is_enabled


@guarded
@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Remove the file that the option names, before the core checks the other options."""
    name = config.getoption("gpuperf_json") or config.getini("gpuperf_json")
    if not is_enabled(config) or not name:
        return
    path = Path(name)
    if path.is_file() and not path.is_symlink():
        head = path.read_bytes()[:100]
        if head.startswith(b'{"schema":') and b'"gpuperf":' in head:
            path.unlink()
