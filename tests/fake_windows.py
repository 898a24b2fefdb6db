"""Windows, as a pytest plugin (`-p fake_windows`): this package finds nothing that only POSIX has."""

from __future__ import annotations

import os
import platform
import signal
import sys

import filelock  # noqa: F401 - other packages choose by the system, too, so they come before
import numpy  # noqa: F401
import rich.console  # noqa: F401
import torch  # noqa: F401

MODULES = ("fcntl", "grp", "pty", "pwd", "resource", "termios", "tty")
OF_OS = (
    *("fork", "forkpty", "setsid", "killpg", "getuid", "geteuid", "uname", "fchmod", "pread", "pwrite"),
    *("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "WNOHANG", "RTLD_NOLOAD", "sched_getaffinity"),
)
SIGNALS = ("SIGHUP", "SIGKILL", "SIGUSR1", "SIGALRM", "SIGQUIT", "SIGCHLD")

for name in [name for name in sys.modules if name.partition(".")[0] == "pytest_gpuperf"]:
    del sys.modules[name]
for name in MODULES:
    sys.modules[name] = None  # type: ignore[assignment]
for owner, names in ((os, OF_OS), (signal, SIGNALS)):
    for name in names:
        delattr(owner, name)
sys.platform = "win32"
platform.system = lambda: "Windows"
