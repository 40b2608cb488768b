"""Live migrations, one object each."""
