"""The Eviction controller: empties a host by many moves at once, whatever happens meanwhile.

`reconciler` observes and acts. The rules are pure: `ways` (what may be done to a server), `follow`
(how far one server is), `preflight`, `plan` (what begins now), `estimate`, `decide` (all of it).
"""
