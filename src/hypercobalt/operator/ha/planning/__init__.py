"""Rules about what a recovery does next, by its facts."""
