"""Mutation tests: how many small faults of the judging and timing code do the tests notice?

`tox -e mutants` draws mutants with a seed, runs the tests that reach the changed line, and lists the mutants
that no test notices. It runs all tests once under coverage, which takes longest; `--reach FILE` keeps what is
still valid for the next time. After that, 300 mutants take some five minutes on one core.
"""
