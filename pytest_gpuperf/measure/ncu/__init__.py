"""Run ncu and read its reports."""
