"""Runs, tests and parametrizations side by side, as a table, a break-even and a plot."""
