"""KubeVirt's kinds: structs of what our code reads, and the schema of the whole as data."""
