"""The kernels that the suites test. Nothing is compiled before it is called on a GPU."""
