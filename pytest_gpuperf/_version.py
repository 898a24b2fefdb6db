"""The version, alone so that the build can read it without importing the package."""

__version__ = "0.1.0"
INSTALL_FROM = "git+https://github.com/pytest-gpuperf/pytest-gpuperf"
"""Where pip finds the package; empty once it has a release.

`python -m docs.update_output` writes a change into the pages.
"""


def requirement(extras: str = "") -> str:
    """Return the text for pip that names this package.

    Args:
        extras: Names of extras, separated by commas.
    """
    name = f"pytest-gpuperf[{extras}]" if extras else "pytest-gpuperf"
    return f"{name} @ {INSTALL_FROM}" if INSTALL_FROM else name
