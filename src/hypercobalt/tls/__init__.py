"""TLS of our listeners: their context, and a certificate made at start.

Below the client of the API, which processes that start and end at once need not load.
"""
