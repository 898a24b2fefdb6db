"""The report of one or several runs as one HTML file, which asks for no other file."""
