"""Tests of model files and data files."""
