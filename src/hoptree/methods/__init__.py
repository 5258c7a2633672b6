"""The methods: one file each, readable like the algorithm in its paper."""

__all__ = ["DEFAULT_METHOD"]

DEFAULT_METHOD = "hop"
