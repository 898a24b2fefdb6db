"""Runs, tests and parameters side by side: comparisons, break-evens and curves."""
