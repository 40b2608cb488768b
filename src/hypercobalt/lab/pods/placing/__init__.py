"""Places pods on Nodes, in the place of kube-scheduler, which the lab does not run."""
