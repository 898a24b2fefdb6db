"""Kernels of the suites, compiled at their first call on a GPU."""
