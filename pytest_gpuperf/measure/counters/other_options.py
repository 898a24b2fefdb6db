"""Options of the command line that the project or another plugin has declared: a test may hang on them."""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING

import msgspec
from _pytest.config import get_config

if TYPE_CHECKING:
    from collections.abc import Mapping

_DRAWN = frozenset(("randomly_seed",))
"""What pytest-randomly draws anew for each run; values of inputs are not among what counters hang on."""


def other_options(values: Mapping[str, object]) -> tuple[str, ...]:
    """Those that are neither pytest's own nor this plugin's, as `dtype="fp16"`, sorted.

    Args:
        values: All options of the command line, by `dest`.
    """
    # Nothing tells who has declared an option, but a pytest without plugins knows its own; `-q` adds one.
    own = vars(get_config()._parser.parse_known_args(["-q"])).keys() | _DRAWN
    others = sorted(name for name in values if name not in own and not name.startswith("gpuperf"))
    return tuple(f"{name}={_shown(values[name])}" for name in others)


def _shown(value: object) -> str:
    return msgspec.json.encode(value, enc_hook=_plain, order="deterministic").decode()


def _plain(value: object) -> str:
    """What an object shows of itself may be its address."""
    return str(value) if isinstance(value, PurePath) else type(value).__name__
