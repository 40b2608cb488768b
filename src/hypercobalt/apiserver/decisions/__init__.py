"""Decides the result of each write on an object: pure functions, executed by `writing`."""
