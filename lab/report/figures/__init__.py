"""Further figures of a run: its fences, its cycle, how fast and how often the lock was acquired."""
