"""hypercobalt: the hypervisor layer that a Kubernetes cluster can manage."""
