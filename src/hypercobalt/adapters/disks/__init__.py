"""Disk images: what an image is and may be, overlays over images, and empty disks."""
