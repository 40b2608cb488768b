"""What a person asks of one host's switch: traces and ports. Nothing here changes the switch."""
