"""The documentation, and the scripts that fill it with real output."""
