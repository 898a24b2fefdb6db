"""Plugins of pytest that change what each test begins without; see `benchmarks.costs`."""
