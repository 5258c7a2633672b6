"""Values, errors, settings, files and HTTP, on which all other packages build."""
