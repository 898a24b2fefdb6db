"""Reports of a history: changes, one series, all series, a site."""
