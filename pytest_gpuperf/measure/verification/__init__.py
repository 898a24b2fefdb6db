"""Verify that timed calls did their work."""
