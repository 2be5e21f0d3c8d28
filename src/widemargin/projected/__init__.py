"""PSVM: sparse kernel SVMs with a chosen number of basis vectors, and `ProjectedSVC`."""
