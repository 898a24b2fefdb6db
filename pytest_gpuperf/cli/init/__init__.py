"""`gpuperf init`: a suite and a workflow for a repository, and a skill for coding agents."""
