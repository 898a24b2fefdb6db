"""Options, ini keys and their values in one run."""
