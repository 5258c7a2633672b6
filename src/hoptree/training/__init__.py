"""Train a model for its roles in a method.

`questions` and `leakage` select questions for training, `plans` makes trees of sub-questions from them, `build` writes
training sets, `lora` trains an adapter on these, and `adapter_eval` measures its gain.
"""
