"""libvirt's RPC over asyncio: what libvirt's C library does for a client, as far as we use it."""
