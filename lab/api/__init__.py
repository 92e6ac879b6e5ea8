"""lab/api/lab."""
