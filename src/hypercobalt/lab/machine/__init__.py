"""The machine that the hosts run on: what it has, what it lacks, what is installed."""
