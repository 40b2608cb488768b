"""The rules of `plan`: checks, which moves begin, what is called, the end, the next look."""
