! Windows by the module mpi_f08: memory of C pointers, attributes, every kind of epoch and of type.
program windows_f08
  use mpi_f08
  use, intrinsic :: iso_c_binding
  implicit none
  integer, parameter :: n = 12
  integer :: rank, ranks, to, from, i
  type(MPI_Win) :: win
  type(MPI_Group) :: world, group
  type(MPI_Datatype) :: column
  type(MPI_Request) :: request
  type(c_ptr) :: base
  integer, pointer :: mine(:)
  ! What changes in calls that do not name it.
  integer, asynchronous :: got, old
  double precision, asynchronous :: matrix(4, 5)
  real, asynchronous :: reals(n)
  complex, asynchronous :: waves(n)
  logical, asynchronous :: flags(n)
  integer(MPI_ADDRESS_KIND) :: bytes, value
  logical :: there

  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks)
  to = mod(rank + 1, ranks)
  from = mod(rank + ranks - 1, ranks)

  ! Integers, in memory that the window brings.
  bytes = n * 4
  call MPI_Win_allocate(bytes, 4, MPI_INFO_NULL, MPI_COMM_WORLD, base, win)
  call c_f_pointer(base, mine, [n])
  mine = 0
  call MPI_Win_get_attr(win, MPI_WIN_SIZE, value, there)
  call equal(there .and. value == bytes, "the attribute of the size")
  call MPI_Win_get_attr(win, MPI_WIN_DISP_UNIT, value, there)
  call equal(there .and. value == 4, "the attribute of the unit")
  call MPI_Win_get_attr(win, MPI_WIN_CREATE_FLAVOR, value, there)
  call equal(there .and. value == MPI_WIN_FLAVOR_ALLOCATE, "the attribute of the flavour")
  call MPI_Win_get_attr(win, MPI_WIN_MODEL, value, there)
  call equal(there .and. value == MPI_WIN_UNIFIED, "the attribute of the model")
  call MPI_Win_get_attr(win, MPI_WIN_BASE, value, there)
  call equal(there .and. value == transfer(base, value), "the attribute of the base")

  call MPI_Win_fence(0, win)
  call MPI_Put(rank + 100, 1, MPI_INTEGER, to, 3_MPI_ADDRESS_KIND, 1, MPI_INTEGER, win)
  call MPI_Accumulate([rank, 2 * rank], 2, MPI_INTEGER, to, 4_MPI_ADDRESS_KIND, 2, MPI_INTEGER, MPI_SUM, win)
  call MPI_Win_fence(0, win)
  call equal(all(mine(4:6) == [from + 100, from, 2 * from]), "put and accumulate of integers")
  call MPI_Win_fence(MPI_MODE_NOSUCCEED, win)

  ! The handle of a group may come again for another.
  call MPI_Win_get_group(win, world)
  do i = 0, ranks - 1
    call MPI_Group_incl(world, 1, [mod(rank + ranks - i, ranks)], group)
    call MPI_Win_post(group, 0, win)
    call MPI_Group_free(group)
    call MPI_Group_incl(world, 1, [mod(rank + i, ranks)], group)
    call MPI_Win_start(group, 0, win)
    call MPI_Put(1000 * i + rank, 1, MPI_INTEGER, mod(rank + i, ranks), 0_MPI_ADDRESS_KIND, 1, MPI_INTEGER, win)
    call MPI_Win_complete(win)
    call MPI_Win_wait(win)
    call MPI_Group_free(group)
    call equal(mine(1) == 1000 * i + mod(rank + ranks - i, ranks), "a put to one after another")
  end do
  call MPI_Group_free(world)

  call MPI_Win_lock(MPI_LOCK_SHARED, to, 0, win)
  call MPI_Get(got, 1, MPI_INTEGER, to, 3_MPI_ADDRESS_KIND, 1, MPI_INTEGER, win)
  call MPI_Win_unlock(to, win)
  call equal(got == rank + 100, "a get under a lock")

  call MPI_Win_lock_all(0, win)
  call MPI_Fetch_and_op(5, old, MPI_INTEGER, to, 8_MPI_ADDRESS_KIND, MPI_SUM, win)
  call MPI_Win_flush(to, win)
  call equal(old == 0, "a fetch_and_op")
  call MPI_Compare_and_swap(9, 5, old, MPI_INTEGER, to, 8_MPI_ADDRESS_KIND, win)
  call MPI_Win_flush(to, win)
  call equal(old == 5, "a compare_and_swap")
  call MPI_Rget(got, 1, MPI_INTEGER, to, 8_MPI_ADDRESS_KIND, 1, MPI_INTEGER, win, request)
  call MPI_Wait(request, MPI_STATUS_IGNORE)
  call equal(got == 9, "a get with a request")
  call MPI_Win_unlock_all(win)
  call MPI_Barrier(MPI_COMM_WORLD)
  call MPI_Win_free(win)
  call equal(win == MPI_WIN_NULL, "the handle of a freed window")

  ! A row of a matrix of the program's, by a vector.
  matrix = rank
  call MPI_Win_create(matrix, 160_MPI_ADDRESS_KIND, 8, MPI_INFO_NULL, MPI_COMM_WORLD, win)
  call MPI_Type_vector(5, 1, 4, MPI_DOUBLE_PRECISION, column)
  call MPI_Type_commit(column)
  call MPI_Win_fence(0, win)
  call MPI_Accumulate([(i + 0.5d0, i = 1, 5)], 5, MPI_DOUBLE_PRECISION, to, 2_MPI_ADDRESS_KIND, 1, column, MPI_SUM, win)
  call MPI_Win_fence(0, win)
  call equal(all(matrix(3, :) == [(rank + i + 0.5d0, i = 1, 5)]), "a row by a vector")
  call equal(all(matrix(2, :) == rank) .and. all(matrix(4, :) == rank), "the rows beside it")
  call MPI_Type_free(column)
  call MPI_Win_free(win)

  reals = -1
  call MPI_Win_create(reals, 48_MPI_ADDRESS_KIND, 4, MPI_INFO_NULL, MPI_COMM_WORLD, win)
  call MPI_Win_fence(0, win)
  call MPI_Accumulate([(real(rank + i), i = 1, n)], n, MPI_REAL, to, 0_MPI_ADDRESS_KIND, n, MPI_REAL, MPI_MAX, win)
  call MPI_Win_fence(0, win)
  call equal(all(reals == [(real(from + i), i = 1, n)]), "the larger reals")
  call MPI_Win_free(win)

  waves = (1.0, 2.0)
  call MPI_Win_create(waves, 96_MPI_ADDRESS_KIND, 8, MPI_INFO_NULL, MPI_COMM_WORLD, win)
  call MPI_Win_fence(0, win)
  call MPI_Accumulate([(cmplx(0, rank + i), i = 1, n)], n, MPI_COMPLEX, to, 0_MPI_ADDRESS_KIND, n, MPI_COMPLEX, MPI_PROD, win)
  call MPI_Win_fence(0, win)
  call equal(all(waves == [(cmplx(-2 * (from + i), from + i), i = 1, n)]), "products of complex numbers")
  call MPI_Win_free(win)

  flags = .false.
  call MPI_Win_create(flags, 48_MPI_ADDRESS_KIND, 4, MPI_INFO_NULL, MPI_COMM_WORLD, win)
  call MPI_Win_fence(0, win)
  call MPI_Accumulate([(mod(rank + i, 2) == 0, i = 1, n)], n, MPI_LOGICAL, to, 0_MPI_ADDRESS_KIND, n, MPI_LOGICAL, MPI_LOR, win)
  call MPI_Win_fence(0, win)
  call equal(all(flags .eqv. [(mod(from + i, 2) == 0, i = 1, n)]), "logicals")
  call MPI_Win_free(win)

  if (rank == 0) print '(a)', "passed"
  call MPI_Finalize()

contains
  subroutine equal(is_so, what)
    logical, intent(in) :: is_so
    character(*), intent(in) :: what
    if (is_so) return
    print '(a,i0,3a)', "rank ", rank, ": ", what, " is not what it should be"
    call MPI_Abort(MPI_COMM_WORLD, 1)
  end subroutine
end program
