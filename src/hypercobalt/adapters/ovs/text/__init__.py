"""Parsers of what the daemons print for a person: pure, one function a command.

A line that is not known is passed over, since each release adds some; a reply without anything of
what the command is for is `Malformed`. The formats were recorded from Open vSwitch 3.1 and OVN
23.03, and read in the sources of those before and after; tests/unit/adapters/ovs/text has both.
"""
