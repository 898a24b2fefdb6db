"""Reports from records and verdicts, for people and programs."""
