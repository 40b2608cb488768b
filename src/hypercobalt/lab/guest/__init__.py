"""What runs inside the lab's VMs: a small Linux, and 512-byte programs for event drills."""
