"""How near times come to the kernels' own durations: ours and those of other tools.

python -m benchmarks.timing_accuracy measure --out FILE [--processes 4]    # on a GPU
python -m benchmarks.timing_accuracy table FILE                            # anywhere
"""
