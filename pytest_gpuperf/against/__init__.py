"""Time old and new code in turn on one GPU: a worktree, two side processes, several restarts."""
