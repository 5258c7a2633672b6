"""Facts out of passages, and the memory that keeps them while one question is answered."""
