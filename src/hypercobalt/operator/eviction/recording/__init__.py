"""What a pass leaves behind for people and programs: the status and the Events."""
