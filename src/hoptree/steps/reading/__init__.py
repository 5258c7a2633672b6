"""What a model said, as values: pure functions that accept anything and never raise."""
