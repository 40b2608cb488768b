"""The key for which agents seal definitions, and how they are read."""
