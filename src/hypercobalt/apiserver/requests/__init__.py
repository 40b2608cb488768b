"""Reads what a client sends: the request, its body, its selectors, its page of a list."""
