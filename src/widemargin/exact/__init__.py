"""The dual problem of a kernel SVM, solved to its optimum, and `KernelSVC` on top of it."""
