"""What a lock is, learned by asking it."""
