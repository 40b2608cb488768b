"""The contract: typed kinds, conditions, quantities, durations.

The CRD YAML in charts/ is generated from these types.
"""
