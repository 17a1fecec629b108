! Every predefined type of Fortran with every operation that it has: accumulate, get_accumulate and fetch_and_op are
! what the host's MPI_REDUCE_LOCAL makes of the same values.
program predefined_f77
  implicit none
  include 'mpif.h'
  integer, parameter :: n = 7, room = 16 * n, byte = selected_int_kind(2)
  integer :: rank, ranks, to, from, win, code
  integer(byte), volatile :: held(room)
  integer(MPI_ADDRESS_KIND) :: bytes
  integer :: arithmetic(4), bits(3), logicals(3), pairs(2)

  call MPI_INIT(code)
  call MPI_COMM_RANK(MPI_COMM_WORLD, rank, code)
  call MPI_COMM_SIZE(MPI_COMM_WORLD, ranks, code)
  to = mod(rank + 1, ranks)
  from = mod(rank + ranks - 1, ranks)
  arithmetic = [MPI_SUM, MPI_PROD, MPI_MIN, MPI_MAX]
  bits = [MPI_BAND, MPI_BOR, MPI_BXOR]
  logicals = [MPI_LAND, MPI_LOR, MPI_LXOR]
  pairs = [MPI_MINLOC, MPI_MAXLOC]
  bytes = room
  call MPI_WIN_CREATE(held, bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, win, code)
  call try("MPI_INTEGER", MPI_INTEGER, 4, [arithmetic, bits])
  call try("MPI_INTEGER1", MPI_INTEGER1, 1, [arithmetic, bits])
  call try("MPI_INTEGER2", MPI_INTEGER2, 2, [arithmetic, bits])
  call try("MPI_INTEGER4", MPI_INTEGER4, 4, [arithmetic, bits])
  call try("MPI_INTEGER8", MPI_INTEGER8, 8, [arithmetic, bits])
  call try("MPI_REAL", MPI_REAL, 4, arithmetic)
  call try("MPI_REAL4", MPI_REAL4, 4, arithmetic)
  call try("MPI_REAL8", MPI_REAL8, 8, arithmetic)
  call try("MPI_DOUBLE_PRECISION", MPI_DOUBLE_PRECISION, 8, arithmetic)
  call try("MPI_COMPLEX", MPI_COMPLEX, 8, arithmetic(:2))
  call try("MPI_COMPLEX8", MPI_COMPLEX8, 8, arithmetic(:2))
  call try("MPI_COMPLEX16", MPI_COMPLEX16, 16, arithmetic(:2))
  call try("MPI_DOUBLE_COMPLEX", MPI_DOUBLE_COMPLEX, 16, arithmetic(:2))
  call try("MPI_LOGICAL", MPI_LOGICAL, 4, logicals)
  call try("MPI_2INTEGER", MPI_2INTEGER, 8, pairs)
  call try("MPI_2REAL", MPI_2REAL, 8, pairs)
  call try("MPI_2DOUBLE_PRECISION", MPI_2DOUBLE_PRECISION, 16, pairs)
  call MPI_WIN_FREE(win, code)
  if (rank == 0) print '(a)', 'passed'
  call MPI_FINALIZE(code)

contains

  subroutine try(name, type, width, ops)
    character(*), intent(in) :: name
    integer, intent(in) :: type, width, ops(:)
    integer(byte) :: operands(room), theirs(room), before(room), there(room), wanted(room)
    integer(byte), volatile :: old(room)
    integer(MPI_ADDRESS_KIND) :: disp
    integer :: i, op, moved(2)

    operands = values(type, rank)
    theirs = values(type, from)
    before = values(type, rank + 50)
    there = values(type, to + 50)
    disp = 0
    moved = [MPI_REPLACE, MPI_NO_OP]
    do i = 1, size(ops) + 2
      op = moved(min(2, max(1, i - size(ops))))
      if (i <= size(ops)) op = ops(i)
      wanted = before
      if (op == MPI_REPLACE) then
        wanted(:n * width) = theirs(:n * width)
      else if (op /= MPI_NO_OP) then
        call MPI_REDUCE_LOCAL(theirs, wanted, n, type, op, code)
      end if

      if (op /= MPI_NO_OP) then
        held = before
        call MPI_WIN_FENCE(0, win, code)
        call MPI_ACCUMULATE(operands, n, type, to, disp, n, type, op, win, code)
        call MPI_WIN_FENCE(0, win, code)
        call check(all(held == wanted), name, i, "MPI_ACCUMULATE")
      end if
      held = before
      old = 85
      call MPI_WIN_FENCE(0, win, code)
      call MPI_GET_ACCUMULATE(operands, n, type, old, n, type, to, disp, n, type, op, win, code)
      call MPI_WIN_FENCE(0, win, code)
      call check(all(held == wanted), name, i, "MPI_GET_ACCUMULATE at the target")
      call check(all(old(:n * width) == there(:n * width)), name, i, "MPI_GET_ACCUMULATE's result")
      held = before
      old = 85
      call MPI_WIN_FENCE(0, win, code)
      call MPI_FETCH_AND_OP(operands, old, type, to, disp, op, win, code)
      call MPI_WIN_FENCE(0, win, code)
      wanted(width + 1:) = before(width + 1:)
      call check(all(held == wanted), name, i, "MPI_FETCH_AND_OP at the target")
      call check(all(old(:width) == there(:width)) .and. all(old(width + 1:) == 85), name, i, "MPI_FETCH_AND_OP's result")
    end do
  end subroutine

  ! Elements of a type as bytes: small numbers, some of them equal, of either sign.
  function values(type, who) result(raw)
    integer, intent(in) :: type, who
    integer(byte) :: raw(room), mold(1)
    integer :: i, x(n)
    x = [(mod(7 * who + 3 * i, 11) - 4, i = 1, n)]
    raw = 0
    if (type == MPI_INTEGER .or. type == MPI_INTEGER4) call put(transfer(77 * x, mold), raw)
    if (type == MPI_INTEGER1) call put(transfer(int(9 * x, selected_int_kind(2)), mold), raw)
    if (type == MPI_INTEGER2) call put(transfer(int(99 * x, selected_int_kind(4)), mold), raw)
    if (type == MPI_INTEGER8) call put(transfer(int(x, selected_int_kind(18)) * 1000000007_8, mold), raw)
    if (type == MPI_REAL .or. type == MPI_REAL4) call put(transfer(x * 0.3, mold), raw)
    if (type == MPI_DOUBLE_PRECISION .or. type == MPI_REAL8) call put(transfer(x * 0.3d0, mold), raw)
    if (type == MPI_COMPLEX .or. type == MPI_COMPLEX8) call put(transfer(cmplx(x * 0.3, x * x - 9.1), mold), raw)
    if (type == MPI_DOUBLE_COMPLEX .or. type == MPI_COMPLEX16) &
      call put(transfer([(x(i) * 0.3d0, x(i) * x(i) - 9.1d0, i = 1, n)], mold), raw)
    if (type == MPI_LOGICAL) call put(transfer([(mod(x(i) + 4 + i, 2) == 1, i = 1, n)], mold), raw)
    ! Equal values with other indexes.
    if (type == MPI_2INTEGER) call put(transfer([(x(i) / 3, who * n + i, i = 1, n)], mold), raw)
    if (type == MPI_2REAL) call put(transfer([(x(i) / 6 * 0.3, real(mod(who * 3 + i, 20) - 10), i = 1, n)], mold), raw)
    if (type == MPI_2DOUBLE_PRECISION) &
      call put(transfer([(x(i) / 6 * 0.3d0, dble(mod(who * 3 + i, 20) - 10), i = 1, n)], mold), raw)
    if (all(raw == 0)) call check(.false., "a type", 0, "no values")
  end function

  subroutine put(some, raw)
    integer(byte), intent(in) :: some(:)
    integer(byte), intent(inout) :: raw(room)
    raw(:size(some)) = some
  end subroutine

  subroutine check(holds, name, op, what)
    logical, intent(in) :: holds
    character(*), intent(in) :: name, what
    integer, intent(in) :: op
    integer :: ignored
    if (holds) return
    print '(a, i0, 5a, i0)', 'rank ', rank, ': wrong: ', what, ' of ', name, ' with operation ', op
    call MPI_ABORT(MPI_COMM_WORLD, 1, ignored)
  end subroutine
end program
