"""Measures the savers: `make bench`, or `python -m benchmarks --help`, from the root of the repository."""
