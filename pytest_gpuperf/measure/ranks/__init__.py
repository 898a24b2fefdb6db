"""Run a callable on several GPUs at once, one process (a rank) for each: they live as long as the session."""
