"""Counters that CUPTI reads in the process, beside those that ncu reads of the same kernels.

python -m benchmarks.counter_agreement measure --out FILE    # on a GPU, where ncu is installed
python -m benchmarks.counter_agreement table FILE            # anywhere

Each profiles each call several times. ncu leaves caches and clocks alone, as CUPTI does; what is compared is
the longest kernel of the call.
"""
