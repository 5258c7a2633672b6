"""Numbers people can believe."""
