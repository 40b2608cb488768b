"""Types that the steps of a pass over a host hand on."""
