"""The feature compare."""
