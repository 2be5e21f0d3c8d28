"""Slow, obvious implementations that share no code with the package."""
