"""Several real hosts on one machine; for now, the embedded API server with our types."""
