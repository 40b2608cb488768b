"""Fence devices: what switches a host's power off from outside, and reads whether it is off."""
