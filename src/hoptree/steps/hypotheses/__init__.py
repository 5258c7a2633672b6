"""Trees of hypotheses: built, held against evidence, and repaired where refuted."""
