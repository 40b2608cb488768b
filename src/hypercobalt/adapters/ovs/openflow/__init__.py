"""OpenFlow as far as counters go: flows by table, and the flows of one table."""
