"""The rules of `assess`: how far each instance is."""
