"""Windows of mpi4py over NumPy's arrays: what a program in Python does with them."""

import numpy
from mpi4py import MPI

world = MPI.COMM_WORLD
rank, ranks = world.rank, world.size
right, left = (rank + 1) % ranks, (rank - 1) % ranks


def check(is_so, what):
    if not is_so:
        print(f"rank {rank}: {what} is not what it should be", flush=True)
        world.Abort(1)


array = numpy.zeros((4, 5))
win = MPI.Win.Create(array, disp_unit=array.itemsize, comm=world)
check(win.Get_attr(MPI.WIN_SIZE) == array.nbytes, "the size")
check(win.Get_attr(MPI.WIN_DISP_UNIT) == 8, "the unit")
check(win.Get_attr(MPI.WIN_BASE) == array.ctypes.data, "the base")
check(win.flavor == MPI.WIN_FLAVOR_CREATE and win.model == MPI.WIN_UNIFIED, "flavour and model")
row = numpy.arange(5) + rank + 0.5
win.Fence()
win.Put(row, right, (5, 5, MPI.DOUBLE))
win.Fence()
check((array[1] == numpy.arange(5) + left + 0.5).all() and not array[0].any(), "a row that was put")
win.Fence()
column = MPI.DOUBLE.Create_vector(4, 1, 5).Commit()
win.Accumulate([numpy.ones(4), 4, MPI.DOUBLE], right, (2, 1, column), op=MPI.SUM)
win.Fence()
check((array[:, 2] == numpy.array([1, left + 3.5, 1, 1])).all(), "a column that was added to")
win.Fence()
column.Free()
got = numpy.empty(20)
win.Get(got, right)
win.Fence()
check(got[5] == rank + 0.5, "what was got")
win.Free()

counter = MPI.Win.Allocate(8, 8, comm=world)
memory = numpy.frombuffer(counter.tomemory(), "i8")
memory[:] = 0
world.Barrier()
one, old = numpy.array([1], "i8"), numpy.zeros(1, "i8")
tickets = []
counter.Lock_all()
for _ in range(100):
    counter.Fetch_and_op(one, old, 0, 0, MPI.SUM)
    counter.Flush(0)
    tickets.append(int(old[0]))
counter.Unlock_all()
everyone = sorted(sum(world.allgather(tickets), []))
check(everyone == list(range(100 * ranks)), "tickets")
counter.Free()

shared = MPI.Win.Allocate_shared(80, 8, comm=world)
mine = numpy.frombuffer(shared.tomemory(), "f8")
mine[:] = rank
shared.Fence()
theirs, unit = shared.Shared_query(right)
check((numpy.frombuffer(theirs, "f8") == right).all() and unit == 8, "shared memory")
shared.Fence()
shared.Free()

allocated = MPI.Alloc_mem(800)
values = numpy.frombuffer(allocated, "f8")
values[:] = 0
win = MPI.Win.Create(allocated, 8, comm=world)
win.Lock(right)
request = win.Rput(numpy.full(100, float(rank)), right)
request.Wait()
win.Unlock(right)
world.Barrier()
check((values == left).all(), "memory of Alloc_mem")
win.Free()
MPI.Free_mem(allocated)

win = MPI.Win.Create(array, 8, comm=world)
win.Set_errhandler(MPI.ERRORS_RETURN)
win.Lock_all()
try:
    win.Put(row, right, (20, 5, MPI.DOUBLE))
    check(False, "a put past the end")
except MPI.Exception as error:
    check(error.Get_error_class() == MPI.ERR_RMA_RANGE, "the class of an error")
    check("MPI_Put" in error.Get_error_string(), "the sentence of an error")
win.Unlock_all()
win.Free()

world.Barrier()
if rank == 0:
    print("passed", flush=True)
