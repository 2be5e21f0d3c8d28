"""DC-SVM (Hsieh, Si, Dhillon 2014), read in this order.

`partition` and `kernel_kmeans` divide the points, `levels` is Algorithm 1, `executors` solves clusters
in parallel, `probe` decides whether levels pay, `cluster_models` and `committee` predict from a level,
and `dc_svc` is the classifier.
"""
