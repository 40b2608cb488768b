"""The storage that the hosts share: a file system of the lab's own, which fails to order."""
