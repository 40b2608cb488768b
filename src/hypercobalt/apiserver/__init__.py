"""The embedded Kubernetes API: one process, one SQLite file, for one machine."""
