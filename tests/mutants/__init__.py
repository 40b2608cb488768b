"""Rules changed one place at a time: each change should make a unit test fail."""
