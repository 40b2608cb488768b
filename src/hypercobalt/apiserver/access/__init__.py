"""Authentication and authorization of clients, and the server's certificates."""
