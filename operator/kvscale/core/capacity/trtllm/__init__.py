"""What one TensorRT-LLM engine holds."""
