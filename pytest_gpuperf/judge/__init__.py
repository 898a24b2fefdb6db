"""Verdicts from records and baselines; needs no GPU."""
