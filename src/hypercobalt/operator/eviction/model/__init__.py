"""Data between the steps of a pass over an Eviction: facts, states, actions, plan. No rules."""
