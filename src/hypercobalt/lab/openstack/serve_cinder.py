"""Serves Cinder: API, scheduler and volume service in one process, with OpenStack's own Python.

usage: serve_cinder.py CONFIGURATION ADDRESS PORT
"""

import importlib
import sys

from waitress import serve  # type: ignore[import-untyped]

load = importlib.import_module
load("cinder.monkey_patch").patch("threading")  # before all else of Cinder: eventlet or threads

file, address, port = sys.argv[1:4]
sys.argv = ["cinder"]
settings = load("oslo_config.cfg").CONF
load("cinder.objects").register_all()
known = load("cinder.version").version_string()
settings(["--config-file", file], project="cinder", version=known)
load("oslo_log.log").setup(settings, "cinder")
load("cinder.common.config").set_middleware_defaults()
load("os_brick").setup(settings)
load("cinder.rpc").init(settings)

services = load("cinder.service").Service
(backend,) = settings.enabled_backends
host = f"{settings.host}@{backend}"
volumes = services.create(
    host=host, service_name=backend, binary="cinder-volume", coordination=True
)
volumes.start()
if not volumes.manager.driver.initialized:
    sys.exit("the driver of the volumes does not start: see cinder.log")
# It waits until it knows what the volume service has.
services.create(binary="cinder-scheduler").start()
application = load("oslo_service.wsgi").Loader(settings).load_app("osapi_volume")
serve(application, host=address, port=int(port), threads=8, ident=None, channel_timeout=300)
