"""The feature fleet."""
