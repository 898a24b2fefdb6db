"""The feature trial."""
