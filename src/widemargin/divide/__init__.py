"""DC-SVM: kernel k-means, clusters solved level by level, early prediction, and `DCSVC`."""
