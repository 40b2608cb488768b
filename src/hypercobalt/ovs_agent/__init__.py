"""The agent of Open vSwitch: what this host's switch does, as an OVSNode."""
