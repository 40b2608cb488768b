"""KubeVirt's actors: one room and one command each. They meet only through API objects."""
