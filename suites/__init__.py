"""Performance tests of well-known kernels, to run and to copy from; the README lists them."""
