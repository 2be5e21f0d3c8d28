"""The command ``widemargin``."""
