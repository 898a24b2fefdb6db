"""The kernel table of a call, live by torch.profiler or from any trace that it has saved."""
