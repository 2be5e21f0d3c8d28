"""Files: model files and their schemas, LIBSVM's text format, data files."""
