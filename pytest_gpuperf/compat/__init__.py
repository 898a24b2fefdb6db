"""Private names of torch, Triton, CuPy, pytest and xdist: a file each, and what replaces a missing one."""
