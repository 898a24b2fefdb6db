"""Comparisons of environments in turn: `python -m benchmarks.environments`."""
