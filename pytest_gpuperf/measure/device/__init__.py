"""The GPU: who it is, what state it is in, what software drives it."""
