"""From annotation files and folders of images to one pool of crops."""
