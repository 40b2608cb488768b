"""Baseboard management controllers: what switches a host's power whatever the host itself does."""
