"""Restore what calls write: arguments, gradients, and states that a callable can reach."""
