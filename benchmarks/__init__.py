"""Benchmarks of the plugin itself: how accurate its times are, and what its gate finds."""
