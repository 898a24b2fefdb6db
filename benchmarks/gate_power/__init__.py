"""Measure the power of the gate: false alarms on unchanged code, and slowdowns of a known size found.

python -m benchmarks.gate_power sample --out FILE [--minutes M] [--kernels REGEX]    # on a GPU
python -m benchmarks.gate_power suspects RUN... --out FILE         # of runs of unchanged code
python -m benchmarks.gate_power analyse FILE...                    # anywhere
"""
