"""Values, errors, the question tree, files and HTTP: what every other package builds on."""
