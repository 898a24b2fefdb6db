"""A fleet: tests on the GPUs of many hosts, through a scheduler of Dask."""
