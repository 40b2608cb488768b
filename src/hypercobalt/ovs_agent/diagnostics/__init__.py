"""Diagnostics of one host's switch: traces, ports, captures.

Nothing here changes the switch, except the mirror of a capture, which is off by default.
"""
