"""virtualbmc over one domain, without its daemon and the command that configures that.

    python virtual_bmc.py URI DOMAIN PORT USER PASSWORD

Run by the environment of `emulators`.
"""

from __future__ import annotations

import sys

from virtualbmc.vbmc import VirtualBMC


def main() -> None:
    uri, domain, port, user, password = sys.argv[1:]
    bmc = VirtualBMC(user, password, int(port), "::ffff:127.0.0.1", domain, uri)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    bmc.listen(timeout=3)  # as virtualbmc's own daemon


if __name__ == "__main__":
    main()
