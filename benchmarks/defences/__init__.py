"""Defences of times: exploits that they refuse, and their cost."""
