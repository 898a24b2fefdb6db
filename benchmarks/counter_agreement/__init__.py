"""Compare counters by CUPTI in the process with those by ncu, on the same kernels.

python -m benchmarks.counter_agreement measure --out FILE [--flushed]    # on a GPU, with ncu installed
python -m benchmarks.counter_agreement table FILE                        # anywhere

Each tool profiles each call several times. ncu leaves caches and clocks alone, as CUPTI does; with
`--flushed` ncu flushes the caches, and under CUPTI each call begins with a kernel that fills L2 with other
data. The longest kernel of each call is compared.
"""
