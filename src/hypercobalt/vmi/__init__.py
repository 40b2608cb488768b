"""VirtualMachineInstances, pure: which are admitted, what they become, their phases."""
