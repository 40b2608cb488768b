"""What real hosts told once, kept as JSON, for rules to be tried on in milliseconds."""
