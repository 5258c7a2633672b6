"""The door for other models: tools over the Model Context Protocol, by which they ask, search, plan and check."""
