"""How a feature value becomes a few numbers: codes of bins, and tables that turn them into these."""
