"""virt-controller: from a VirtualMachineInstance to its pod, and from the pod to the hand-over."""
