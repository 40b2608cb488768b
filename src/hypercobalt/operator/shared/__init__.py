"""What several controllers share."""
