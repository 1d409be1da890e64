"""Pages for the person in front of the machine, served to nobody else."""
