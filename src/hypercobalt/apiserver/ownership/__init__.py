"""Who owns which field, and the patches that change an object."""
