"""Baseline files: read, merged with runs, written."""
