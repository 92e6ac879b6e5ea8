"""lab/batch."""
