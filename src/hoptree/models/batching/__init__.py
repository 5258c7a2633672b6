"""Batched generation with transformers models: many requests in one running batch."""
