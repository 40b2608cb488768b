"""Certificates of hosts: requests for them, and their approval."""
