"""Validation of values: compiled schemas and CEL rules."""
