"""From passages, memory or earlier answers to an answer, and the choice between several."""
