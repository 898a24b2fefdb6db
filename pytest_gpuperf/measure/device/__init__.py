"""The GPU: its identity, its state and the software that drives it."""
