"""The host's operating system: systemd units, logind, hostnamed and a few files."""
