"""What the facts mean: pure, one module a subject."""
