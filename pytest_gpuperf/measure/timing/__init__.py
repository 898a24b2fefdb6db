"""Warm-up and event timing of callables on the GPU."""
