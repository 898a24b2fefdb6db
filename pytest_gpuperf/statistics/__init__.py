"""Statistics of times: means, variances, tests. Imports nothing else of the package."""
