"""Everything that touches a GPU, a profiler or a compiler."""
