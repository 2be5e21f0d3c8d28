"""What is the same for every solver."""

#: Stopping tolerance of every solver.
TOL = 1e-3
#: Threads of every solver that has threads.
THREADS = 2
#: Kernel cache of the peers.
CACHE_MEGABYTES = 2000
#: A peer whose first fit takes longer runs once.
LONG_FIT_SECONDS = 60.0
#: Kernel entries above which the duality gap is not computed.
MAX_GAP_ENTRIES = 1.5e9
#: Memory touched before a timing: this share of what is free, at most this much.
TOUCH_SHARE = 0.4
MAX_TOUCH_BYTES = 4 * 10**9
#: A time counts only if the objective differs from that of LIBSVM by no more, relatively.
MAX_OBJECTIVE_DIFFERENCE = 1e-5

#: Display names of the solvers, in the order of the tables.
SOLVERS = {"sklearn": "LIBSVM", "intelex": "intelex", "widemargin": "widemargin"}
