"""A cluster that is told, step by step, what happens, by a program in another process."""
