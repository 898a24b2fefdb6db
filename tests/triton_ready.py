"""Imported by the server of forks: it hashes Triton's files once for all servers of side processes."""

from pytest_gpuperf.against.fork_server import ready_compilers

ready_compilers()
