"""The feature ncu."""
