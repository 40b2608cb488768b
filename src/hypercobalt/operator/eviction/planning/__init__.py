"""The rules of `plan`: checks, moves to begin, calls, the end, the next pass."""
