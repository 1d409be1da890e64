"""How near to the machine's limit the work runs: every benchmark is a ratio of two things measured side by side."""
