"""Daemons of other hosts, asked now and then: their guests, and how those go elsewhere."""
