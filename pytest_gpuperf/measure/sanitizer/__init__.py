"""compute-sanitizer over the kernels of the selected tests: find it, run it, and blame the right test."""
