"""Owners of fields, and the patches that change an object."""
