"""A certificate whose key is made on the host: request, check, files, renewal."""
