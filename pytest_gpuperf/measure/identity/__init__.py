"""Code of the kernels that a call launches: find it, hash it, and keep it."""
