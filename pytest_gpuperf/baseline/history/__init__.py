"""History: the time of each test at each commit, in a folder or on a branch of its own."""
