"""`gpuperf history`: times over commits."""
