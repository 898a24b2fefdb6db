"""Warm-up and timing of callables on the GPU."""
