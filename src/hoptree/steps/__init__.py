"""One move each: a prompt family, a pure parser, a trace event. Steps never call each other."""
