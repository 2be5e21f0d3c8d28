"""Benchmarks against other kernel SVM solvers: ``python -m benchmarks --help``."""
