"""kvscale: size and scale LLM inference on Kubernetes by KV-cache memory."""

__version__ = "0.1.0"
