"""The feature history."""
