"""From a Node to its Hypervisor, and the conditions that follow from both."""
