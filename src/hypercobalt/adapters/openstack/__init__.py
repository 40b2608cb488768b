"""OpenStack's APIs: an account, calls with deadlines, retries and a circuit breaker."""
