"""Built-in kinds: what they do beyond their schema."""
