"""Properties that some locks promise beyond mutual exclusion: one module each, used where they apply."""
