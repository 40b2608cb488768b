"""The Eviction controller: empties a host by many moves at once, whatever happens meanwhile.

`reconciler` makes the passes; docs/architecture.md, "One pass over an Eviction", lists the rules.
"""
