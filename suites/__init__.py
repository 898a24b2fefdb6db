"""Performance tests of kernels that people know, to run and to copy from; README has a table of them."""
