"""The page that a run leaves for the person who started it."""
