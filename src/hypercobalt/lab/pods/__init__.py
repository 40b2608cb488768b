"""Stand-ins for what a cluster does with pods: placing them, running them on lab hosts."""
