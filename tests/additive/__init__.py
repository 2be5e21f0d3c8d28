"""Tests of the additive kernels."""
