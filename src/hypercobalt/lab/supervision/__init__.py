"""Supervision of the processes of a lab of `cobalt lab up`: what dies is started again."""
