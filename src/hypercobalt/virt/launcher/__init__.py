"""virt-launcher: the first process of a pod, with one libvirtd and one guest below it."""
