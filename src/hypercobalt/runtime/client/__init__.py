"""A thin typed client for the Kubernetes API: bytes from the socket straight into our structs."""
