"""Defences of times: exploits that they refuse, honest callables that they accept, and their cost."""
