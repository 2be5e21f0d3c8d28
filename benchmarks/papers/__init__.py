"""The tables and figures of the papers, measured here and set beside the published numbers."""
