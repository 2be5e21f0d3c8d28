"""Additive kernels at the cost of a linear SVM: spectral tables, PmSVM, ICD and LR-SVM."""
