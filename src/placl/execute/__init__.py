"""Where candidates run: in this process or in a pool of worker processes. The results are the same bits."""
