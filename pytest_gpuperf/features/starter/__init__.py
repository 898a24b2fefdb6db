"""The feature starter."""
