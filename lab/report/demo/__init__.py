"""A run, told step by step in the terminal, beside what the article says of it."""
