"""The feature export."""
