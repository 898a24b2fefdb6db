"""Imported by the server of forks: it hashes Triton's files once for all servers of side processes."""

from pytest_gpuperf.compat.compiler_names import ready_compilers

ready_compilers()
