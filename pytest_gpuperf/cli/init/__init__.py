"""The files that `gpuperf init` writes: a suite, a tox environment, workflows, and a line for git."""
