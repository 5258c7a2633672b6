"""Finding passages: one small Protocol, and what implements it."""
