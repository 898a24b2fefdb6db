"""Run compute-sanitizer over the kernels of the selected tests and assign each error to its test."""
