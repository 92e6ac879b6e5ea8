"""Reports of a run: pictures, pages and terminal text made from a history and its verdict."""
