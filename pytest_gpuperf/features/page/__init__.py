"""The feature page."""
