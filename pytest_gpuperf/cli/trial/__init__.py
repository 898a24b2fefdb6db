"""`gpuperf try`: a solution against its problem, in a process of its own."""
