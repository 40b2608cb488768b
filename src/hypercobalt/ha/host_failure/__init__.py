"""When a host counts as dead, and how it is fenced and given back: the operator's rules."""
