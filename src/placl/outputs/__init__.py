"""What a model has found, and the files it is written to: COCO, csv, DeepLabCut, SLEAP."""
