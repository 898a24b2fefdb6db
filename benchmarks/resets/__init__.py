"""Plugins of pytest that keep compiled code between tests, or reset autotuners; see `benchmarks.costs`."""
