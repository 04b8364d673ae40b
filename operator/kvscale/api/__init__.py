"""The InferencePool: pydantic models, CRD generation, and parsing at the edge."""
