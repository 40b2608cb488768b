"""What real hosts reported once, kept as JSON, for rules to be tried on in milliseconds."""
