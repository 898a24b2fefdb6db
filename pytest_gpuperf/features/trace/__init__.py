"""The feature trace."""
