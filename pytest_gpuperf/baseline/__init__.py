"""The JSON files that hold what a suite measured before."""
