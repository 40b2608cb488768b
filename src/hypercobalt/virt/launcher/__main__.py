"""`python -m hypercobalt.virt.launcher SETTINGS`: the first process of a launcher pod."""

from __future__ import annotations

import sys

from hypercobalt.virt.launcher import first


def _launch() -> int:
    # Imported here: the first process stays small.
    from hypercobalt.virt.launcher.process import main  # noqa: PLC0415

    return main(sys.argv[1])


if __name__ == "__main__":
    sys.exit(first.above(_launch))
