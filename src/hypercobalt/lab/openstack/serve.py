"""Serves APIs of one of OpenStack's projects. Runs with OpenStack's own Python.

usage: serve.py ADDRESS MODULE PORT [MODULE PORT]...
"""

import importlib
import sys
from functools import partial
from threading import Thread

from waitress import serve  # type: ignore[import-untyped]

address, *served = sys.argv[1:]
sys.argv = served[:1]  # the applications read it themselves
works = [
    partial(
        serve,
        importlib.import_module(module).application,
        host=address,
        port=int(port),
        threads=8,
        ident=None,
        channel_timeout=300,
        max_request_body_size=1 << 34,  # images
    )
    for module, port in zip(served[::2], served[1::2], strict=True)
]
for work in works[1:]:
    Thread(target=work, daemon=True).start()
works[0]()
