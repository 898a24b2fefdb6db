"""Hardware counters of the calls of a session, read by ncu or CUPTI."""
