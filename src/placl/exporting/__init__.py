"""A trained model for use without placl: an ONNX file, a PyTorch program and a model card."""
