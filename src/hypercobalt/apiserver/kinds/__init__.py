"""Which kinds are served: built-in ones as data, custom ones by their definitions."""
