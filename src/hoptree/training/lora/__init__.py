"""Training a LoRA adapter."""
