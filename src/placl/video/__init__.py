"""Videos, frame by frame: where to look, what is found there, and a video of it."""
