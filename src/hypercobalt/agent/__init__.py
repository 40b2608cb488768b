"""The common parts of every agent of a host: Lease, board, applier, certificates, process."""
