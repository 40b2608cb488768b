"""Key with which agents seal definitions, and the reader of those."""
