"""The feature github."""
