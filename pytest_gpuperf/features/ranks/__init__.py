"""The feature ranks."""
