"""A run, shown part by part in the terminal, beside quotations from the article."""
