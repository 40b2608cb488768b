"""What every agent of a host has: Lease, board, applier, certificates, process."""
