"""checker/history/history."""
