"""Tests of DC-SVM."""
