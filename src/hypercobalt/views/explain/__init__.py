"""Explanations for the person on call: state, what is waited for, who reported it, what to do."""
