"""Mutation tests: how many small faults of the judging and timing code do the tests notice?

`tox -e mutants` draws mutants with a seed, runs the tests that reach the changed line, and lists the mutants
that no test notices. 300 mutants take about half an hour on two cores.
"""
