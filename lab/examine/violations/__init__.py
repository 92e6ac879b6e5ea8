"""What is wrong in one run: the checker's findings, and what only the nodes show."""
