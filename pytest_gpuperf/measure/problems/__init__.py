"""Problem and solution files of other projects: their forms, their cases and their callables."""
