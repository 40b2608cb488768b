"""virt-api: admission of VirtualMachineInstances for an API server that calls webhooks."""
