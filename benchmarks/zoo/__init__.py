"""A zoo of honest callables: each is checked and timed, and none may be refused."""
