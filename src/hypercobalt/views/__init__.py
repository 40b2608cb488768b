"""What a person is shown: states, causes and advice, computed from objects as they were read.

Nothing here reads or prints: the terminal shows it, and so may a page.
"""
