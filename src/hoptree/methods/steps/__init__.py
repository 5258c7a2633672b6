"""Steps that two or more methods share."""
