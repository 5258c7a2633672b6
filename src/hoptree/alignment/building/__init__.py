"""Training sets: rows with the prompts that a method itself sends."""
