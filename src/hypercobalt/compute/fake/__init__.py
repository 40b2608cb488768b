"""A compute service in memory, for tests: it behaves as Nova does, and as badly as it is told."""
