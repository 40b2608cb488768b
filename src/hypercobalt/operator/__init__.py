"""The Hypervisor Operator: one module for each controller, each with its pure `decide`."""
