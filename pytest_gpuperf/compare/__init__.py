"""Runs, tests and parameters side by side: comparisons, curves and the break-even size."""
