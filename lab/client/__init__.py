"""One client of the lock: the worker, its log, and the process around it."""
