"""What real processes have in common, wherever they run: as they are, or in containers on this machine."""
