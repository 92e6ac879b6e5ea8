"""A cluster that a program in another process drives step by step."""
