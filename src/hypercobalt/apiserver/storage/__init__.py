"""Where objects and events are kept: in memory to be read, in SQLite to survive."""
