"""Solvers: mathematics only, arrays in and results out."""
