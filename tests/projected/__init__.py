"""Tests of PSVM."""
