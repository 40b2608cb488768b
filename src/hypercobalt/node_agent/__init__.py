"""The agent on each host: libvirt inventory, migrations, units and certificates → Kubernetes."""
