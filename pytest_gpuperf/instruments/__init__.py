"""What stands behind the fixtures: the GPU itself, the profiling pass, or a recorded run."""
