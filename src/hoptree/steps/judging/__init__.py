"""What a model thinks of passages and answers, in one of a few words."""
