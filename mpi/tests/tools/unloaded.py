"""A library that has the program in it, and Transom's behind it, loaded and unloaded again: as Python's modules
are. What the library leaves behind must not be called into when it is gone."""
import _ctypes
import ctypes
import sys
import threading

program = ctypes.CDLL(sys.argv[1], ctypes.RTLD_GLOBAL)
arguments = (ctypes.c_char_p * 2)(b"program", None)
code = program.main(1, arguments)
_ctypes.dlclose(program._handle)
# Some that end after it.
others = [threading.Thread(target=int) for _ in range(4)]
for other in others:
    other.start()
for other in others:
    other.join()
sys.exit(code)
