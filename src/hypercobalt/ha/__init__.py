"""High availability, pure: what events and silence mean, and which actions they allow."""
