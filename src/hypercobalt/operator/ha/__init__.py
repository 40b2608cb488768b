"""The HA service: a host fails, is fenced, its instances are evacuated, it comes back."""
