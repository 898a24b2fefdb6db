"""`gpuperf fleet`: run tests on the GPUs of many hosts."""
