"""Request bodies in Kubernetes' protobuf form."""
