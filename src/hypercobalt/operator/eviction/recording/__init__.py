"""Results of a pass for people and programs: the status and the Events."""
