"""Data sets of questions with known answers, in the formats they come in."""
