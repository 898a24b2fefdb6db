"""Compare times by the plugin and by other tools with the true durations of kernels.

python -m benchmarks.timing_accuracy measure --out FILE [--processes 4]    # on a GPU
python -m benchmarks.timing_accuracy table FILE                            # anywhere
"""
