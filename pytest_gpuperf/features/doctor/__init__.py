"""The feature doctor."""
