"""NVIDIA's profiling library CUPTI, called in this process."""
