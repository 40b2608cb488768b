"""What has happened to the instances of one host, and what its node agent does about it."""
