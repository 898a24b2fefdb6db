import ctypes
from importlib.resources import files

launch = ctypes.CDLL(str(files("fast") / "libsteps.so")).launch
launch.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)
