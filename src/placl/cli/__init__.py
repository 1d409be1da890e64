"""The command line: one module per command. Nothing here imports torch before a command has begun."""
