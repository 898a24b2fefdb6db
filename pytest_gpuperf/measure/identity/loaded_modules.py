"""Cubins that this process has loaded."""

from __future__ import annotations

from pytest_gpuperf.measure.identity.cubin import Cubin

MOST_BYTES = 512 << 20
"""Bytes of all cubins that are held: those of libraries have many MB, and each has thousands of kernels."""
_ELF = b"\x7fELF"


class LoadedModules:
    """Holds cubins until their kernels are launched.

    Args:
        most_bytes: Bytes to hold; the oldest cubins go first.
    """

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._cubins: list[tuple[str, Cubin]] = []
        self._bytes = 0
        self.test = ""
        """Node id of the present test."""

    def take(self, data: bytes) -> None:
        """Hold a cubin; anything else that the driver loads is left out."""
        if not data.startswith(_ELF) or len(data) > self._most_bytes:
            return
        self._cubins.append((self.test, Cubin(data)))
        self._bytes += len(data)
        while self._bytes > self._most_bytes:
            _, oldest = self._cubins.pop(0)
            self._bytes -= oldest.size

    def having(self, kernel: str) -> list[Cubin]:
        """Return the cubins with a kernel: those that the present test has loaded, else all.

        Two modules of a project may have kernels of one name.

        Args:
            kernel: Name in the cubin, mangled for C++.
        """
        found = [(test, cubin) for test, cubin in self._cubins if cubin.has(kernel)]
        own = [cubin for test, cubin in found if test == self.test]
        return own or [cubin for _, cubin in found]
