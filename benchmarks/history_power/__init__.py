"""Measure `gpuperf history show --changes`: false alerts, steps found, and the delay in commits.

python -m benchmarks.history_power --out FILE [--seed N]    # needs apache-otava and asv, but no GPU

The series are made of the committed samples of the gate's benchmark and of calls that synchronise.
"""
