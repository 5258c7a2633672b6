"""Teaching a model the parts that it plays in a method.

`questions` and `leakage` say which questions may be trained on, `plans` makes trees of sub-questions from them, `build`
writes training sets, `lora` trains an adapter on these, and `adapter_eval` measures what it gained.
"""
