"""Performance tests of kernels that people know, to run and to copy from."""
