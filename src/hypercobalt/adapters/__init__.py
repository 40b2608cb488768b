"""Outside systems, one folder each: the real class, its data types, its errors, a shipped fake.

No adapter imports anything of Kubernetes, and no other room imports the libraries behind them.
"""
