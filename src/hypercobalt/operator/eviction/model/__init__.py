"""What the steps of a pass over an Eviction hand on: facts, states, actions, the plan. No rules."""
