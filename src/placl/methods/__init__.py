"""The methods of the paper's tables and those that came after, on shared parts: pool, inner loop, selection, stages."""
