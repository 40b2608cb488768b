"""virt-handler: the guests of one node, from the hand-over of their VMIs to their end."""
