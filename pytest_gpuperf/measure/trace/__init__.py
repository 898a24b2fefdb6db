"""Kernel table of a call, live by torch.profiler or from any trace that torch.profiler saved."""
