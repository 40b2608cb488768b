"""Client, informers, work queue, controllers, manager: what a controller needs, no domain word."""
