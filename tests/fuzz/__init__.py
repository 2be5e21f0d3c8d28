"""Random cases of everything the library reads, fits, limits and writes; see ``__main__``."""
