"""Time old and new code in turn on one GPU: a worktree, two worker processes, several restarts."""
