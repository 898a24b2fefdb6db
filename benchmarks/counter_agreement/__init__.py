"""Compare counters by CUPTI in the process with those by ncu, on the same kernels.

python -m benchmarks.counter_agreement measure --out FILE    # on a GPU, with ncu installed
python -m benchmarks.counter_agreement table FILE            # anywhere

Each tool profiles each call several times, with the options of a run: both flush the caches and leave the
clocks alone. The longest kernel of each call is compared.
"""
