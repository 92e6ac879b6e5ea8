"""A run, shown part by part in the terminal, beside what the article says, in our words."""
