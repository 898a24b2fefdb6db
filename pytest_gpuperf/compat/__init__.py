"""Private names of torch, Triton, pytest and xdist: a file each, and what replaces a missing one."""
