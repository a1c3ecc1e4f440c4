"""egraph-opt: an equality-saturation optimizer for ONNX models."""
