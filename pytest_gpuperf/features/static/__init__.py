"""Compile kernels without a GPU: registers, spills, instructions and occupancy for any architecture."""
