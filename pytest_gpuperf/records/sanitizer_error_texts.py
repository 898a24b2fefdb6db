"""Texts for the errors that compute-sanitizer found in a test."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_gpuperf.records import SanitizerHit, SanitizerResult


def errors_of(result: SanitizerResult) -> list[str]:
    """Return one text for each kind of error: a line with kernel, place and thread, then the details.

    An unchecked test has one text, too: the reason.
    """
    if result.unchecked:
        return [f"{result.tool} did not check this test: {result.unchecked}"]
    texts = ["\n".join([f"{result.tool}: {_headline(hit)}", *_details(hit)]) for hit in result.hits]
    rest = result.count - sum(hit.count for hit in result.hits)
    if rest:
        texts.append(f"{result.tool}: {rest:,} more errors of other kinds or places")
    if result.cut:
        texts.append(f"{result.tool}: the test was ended after {result.count:,} errors; there are more")
    return texts


def _headline(hit: SanitizerHit) -> str:
    line = hit.kind
    if hit.kernel:
        line += f" in {hit.kernel}"
    if hit.places:
        line += f" ({', '.join(dict.fromkeys(hit.places))})"
    if hit.threads:
        threads = " and ".join(map(_index, hit.threads))
        line += f" by thread{'s' if len(hit.threads) > 1 else ''} {threads}"
    if hit.block is not None:
        line += f" in block {_index(hit.block)}"
    return line


def _details(hit: SanitizerHit) -> list[str]:
    lines = []
    if hit.address:
        comma = "" if not hit.detail or hit.detail.startswith("is ") else ","
        lines.append(f"address {hit.address}{comma} {hit.detail}".rstrip())
    elif hit.detail:
        lines.append(hit.detail)
    if hit.count > 1:
        lines.append(f"{hit.count:,} of this kind at this place")
    if not hit.label:
        lines.append("launched by the test itself, outside of gpuperf's calls")
    elif hit.label != "main":
        lines.append(f"launched by the call labelled {hit.label!r}")
    return lines


def _index(index: tuple[int, int, int]) -> str:
    return f"({','.join(map(str, index))})"
