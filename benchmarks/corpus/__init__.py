"""Public files of profilers, read by the package and by a reader that shares no code with it.

The files stay with their owners: `results/corpus.json` names repository, commit, path, licence and SHA-256.
"""
