# Calls MPI's functions from the handle of a library: by_handle.py LIBRARY [only]. Puts to a window, unless "only".
import ctypes
import sys

name = sys.argv[1]
mpi = ctypes.CDLL(name, mode=ctypes.RTLD_LOCAL)
is_open_mpi = hasattr(mpi, "ompi_mpi_comm_world")


def constant(number, symbol):
    return ctypes.addressof(ctypes.c_char.in_dll(mpi, symbol)) if is_open_mpi else number


handle = ctypes.c_void_p if is_open_mpi else ctypes.c_int
world = handle(constant(0x44000000, "ompi_mpi_comm_world"))
info = handle(constant(0x1C000000, "ompi_mpi_info_null"))
byte = handle(constant(0x4C00010D, "ompi_mpi_byte"))
zero = ctypes.c_ssize_t(0)
mpi.MPI_Init(None, None)
rank, size = ctypes.c_int(), ctypes.c_int()
mpi.MPI_Comm_rank(world, ctypes.byref(rank))
mpi.MPI_Comm_size(world, ctypes.byref(size))
if sys.argv[2:] != ["only"]:
    window, base = handle(), ctypes.c_void_p()
    mpi.MPI_Win_allocate(ctypes.c_ssize_t(8), 1, info, world, ctypes.byref(base), ctypes.byref(window))
    mpi.MPI_Win_fence(0, window)
    mine = ctypes.c_char(65 + rank.value)
    mpi.MPI_Put(ctypes.byref(mine), 1, byte, (rank.value + 1) % size.value, zero, 1, byte, window)
    mpi.MPI_Win_fence(0, window)
    got = ctypes.string_at(base, 1)[0] - 65
    assert got == (rank.value - 1) % size.value, got
    mpi.MPI_Win_free(ctypes.byref(window))
mpi.MPI_Barrier(world)
if rank.value == 0:
    print("passed", flush=True)
mpi.MPI_Finalize()
