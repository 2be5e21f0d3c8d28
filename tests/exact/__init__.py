"""Tests of the exact solver and its estimators."""
