"""What a client asks for: the request, its body, its selectors, its page of a list."""
