"""Serves one of OpenStack's APIs. Runs with OpenStack's own Python.

usage: serve.py MODULE ADDRESS PORT
"""

import importlib
import sys

from waitress import serve  # type: ignore[import-untyped]

module, address, port = sys.argv[1:4]
sys.argv = [module]  # the applications read it themselves
application = importlib.import_module(module).application
serve(
    application,
    host=address,
    port=int(port),
    threads=8,
    ident=None,
    channel_timeout=300,
    max_request_body_size=1 << 34,  # images
)
