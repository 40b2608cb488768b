"""From what the rules find to the status of the OVSNode."""
