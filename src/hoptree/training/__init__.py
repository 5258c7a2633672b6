"""Teaching a model the parts that it plays in a method.

`questions` says which questions may be trained on, `plans` makes trees of sub-questions of them, `building` writes
training sets, `training` makes an adapter of these, and `measuring` says what it gained.
"""

from __future__ import annotations
