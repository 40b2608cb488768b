"""High availability, pure: what events and silence mean, and what may be done about them."""
