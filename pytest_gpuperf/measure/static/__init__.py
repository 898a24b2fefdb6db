"""What a compiler knows of a kernel, for architectures that need not be there."""
