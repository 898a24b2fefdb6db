"""Hardware counters: what they are called, how they are captured, read and combined."""
