"""What each write makes of an object: pure functions, which writing carries out."""
