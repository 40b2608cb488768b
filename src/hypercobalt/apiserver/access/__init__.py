"""Who may talk to the server, and the certificates for it."""
