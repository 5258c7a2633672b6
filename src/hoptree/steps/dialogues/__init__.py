"""Questions that are made up one after another, each when the answers before it are known."""
