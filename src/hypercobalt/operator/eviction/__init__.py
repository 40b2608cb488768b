"""The Eviction controller: empties a host by many moves at once, whatever happens meanwhile.

`reconciler` makes the passes: `observe`, `assess`, `plan`, `act`, each with a room of its rules.
Where each rule is: docs/architecture.md, "One pass over an Eviction".
"""
