"""JSON files of benchmark results."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import msgspec

from pytest_gpuperf.records.decoding import decode_versioned

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from pytest_gpuperf.records import Environment

Kind = TypeVar("Kind", bound=msgspec.Struct)


def encode(results: msgspec.Struct) -> bytes:
    """Encode results as JSON."""
    return msgspec.json.format(msgspec.json.encode(results), indent=1) + b"\n"


def read(path: Path, kind: type[Kind], *, schema: int) -> Kind:
    """Read a file of results.

    Raises:
        GpuperfError: The file is broken or of a newer schema.
        OSError: The file cannot be read.
    """
    return decode_versioned(
        path.read_bytes(),
        msgspec.json.Decoder(kind),
        schema=schema,
        shown=path.name,
        next_step=f"type `git restore {path.name}`",
    )


def refuse_several_machines(environments: Iterable[Environment]) -> None:
    """Refuse to join results that cannot be compared.

    Raises:
        SystemExit: They are of several models of GPU or several versions of torch.
    """
    if len({(one.gpu.slug, one.toolchain.torch) for one in environments}) > 1:
        raise SystemExit("found several GPU models or versions of torch; expected one machine")
