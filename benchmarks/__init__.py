"""Benchmarks of the plugin: accuracy of times, agreement of counters, power of the gate."""
