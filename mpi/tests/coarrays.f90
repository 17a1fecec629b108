! Coarrays by OpenCoarrays, whose runtime is made of one-sided MPI: each statement between images is a put, a
! get or an atomic of a window, and each lock, event and critical section some of these. Checks itself.
module checks
  use iso_fortran_env, only: error_unit
  implicit none
  interface equal
    module procedure equal_integer, equal_real
  end interface
contains
  subroutine equal_integer(what, got, want)
    character(*), intent(in) :: what
    integer, intent(in) :: got, want
    if (got == want) return
    write (error_unit, '(a,i0,a,i0,3a,i0,a,i0)') 'image ', this_image(), ' of ', num_images(), ': ', what, ' is ', &
      got, ' and not ', want
    error stop 1
  end subroutine

  subroutine equal_real(what, got, want)
    character(*), intent(in) :: what
    real(8), intent(in) :: got, want
    if (got == want) return
    write (error_unit, '(a,i0,a,i0,3a,g0,a,g0)') 'image ', this_image(), ' of ', num_images(), ': ', what, ' is ', &
      got, ' and not ', want
    error stop 1
  end subroutine

  integer function right()
    right = merge(1, this_image() + 1, this_image() == num_images())
  end function

  integer function left()
    left = merge(num_images(), this_image() - 1, this_image() == 1)
  end function
end module

program coarrays
  use iso_fortran_env, only: atomic_int_kind, event_type, lock_type, int8, int64
  use checks
  implicit none
  integer, parameter :: n = 12
  type :: particle
    real(8) :: place(3)
    integer :: charge
  end type
  type :: ragged
    real(8), allocatable :: row(:)
  end type
  integer :: scalar[*], row(n)[*], counter[*]
  real(8) :: matrix(n, n)[*]
  complex(8) :: wave(n)[*]
  character(16) :: text[*]
  integer(int8) :: bytes(n)[*]
  integer(int64), allocatable :: wide(:)[:]
  type(particle) :: particles(4)[*]
  type(ragged) :: mine[*]
  integer(atomic_int_kind) :: atom[*], bits(4)[*]
  type(event_type) :: arrived[*], slots(4)[*]
  type(lock_type) :: lock[*]
  integer :: me, images, i, old, times

  me = this_image()
  images = num_images()
  call puts_and_gets
  call sections
  call components
  call atomics
  call events
  call locks_and_critical
  call collectives
  call allocating
  sync all
  if (me == 1) print '(a)', 'passed'

contains

  subroutine puts_and_gets
    scalar = -1
    row = 0
    sync all
    scalar[right()] = me
    row(:)[left()] = [(100 * me + i, i = 1, n)]
    text[right()] = 'from the left'
    ! An array, since of a scalar with this kind OpenCoarrays 2.10 puts other bytes.
    bytes(:)[right()] = [(int(me, int8), i = 1, n)]
    wave(:)[right()] = [(cmplx(me, i, 8), i = 1, n)]
    sync all
    call equal('a scalar put', scalar, left())
    call equal('a scalar got', scalar[right()], me)
    do i = 1, n
      call equal('an array put', row(i), 100 * right() + i)
      call equal('bytes put', int(bytes(i)), left())
      call equal('real part', real(wave(i), 8), real(left(), 8))
      call equal('imaginary part', aimag(wave(i)), real(i, 8))
    end do
    if (text /= 'from the left') error stop 'text put'
    sync all
    ! Each with all, one after the other.
    do times = 1, images
      if (times == me) then
        do i = 1, images
          scalar[i] = scalar[i] + 1000 * me
        end do
      end if
      sync all
    end do
    call equal('many sums', scalar, left() + 1000 * images * (images + 1) / 2)
    sync all
    ! With neighbours alone.
    if (images > 1) then
      scalar[right()] = -me
      if (left() == right()) then
        sync images (left())
      else
        sync images ([left(), right()])
      end if
      call equal('neighbours alone', scalar, -left())
    end if
    sync all
    ! From one image to another, by a third or by itself.
    row = me
    sync all
    if (me == 1) row(1:3)[images] = row(1:3)[right()] + 5
    sync all
    if (me == images) call equal('from image to image', row(2), merge(1, 2, images == 1) + 5)
    sync all
    ! The kinds differ.
    matrix = 0
    sync all
    matrix(:, 1)[right()] = [(me + i, i = 1, n)]
    sync all
    call equal('integers as reals', matrix(n, 1), real(left() + n, 8))
    sync all
  end subroutine

  subroutine sections
    real(8) :: here(n, n), part(n / 2, n / 3)
    integer :: j, chosen(3)
    matrix = reshape([(1000 * me + i, i = 1, n * n)], [n, n])
    sync all
    part = matrix(1:n:2, 2:n:3)[right()]
    do j = 1, n / 3
      do i = 1, n / 2
        call equal('a section got', part(i, j), real(1000 * right() + (2 * i - 1) + n * (3 * j - 2), 8))
      end do
    end do
    here(:, 1) = matrix(5, n:1:-1)[right()]
    do i = 1, n
      call equal('a row got, backwards', here(i, 1), real(1000 * right() + 5 + n * (n - i), 8))
    end do
    chosen = [7, 2, 11]
    ! Of a matrix, OpenCoarrays 2.10 takes them from the first column, whatever is asked for.
    here(1:3, 2) = matrix(chosen, 1)[right()]
    do i = 1, 3
      call equal('chosen ones got', here(i, 2), real(1000 * right() + chosen(i), 8))
    end do
    sync all
    matrix = 0
    sync all
    matrix(2:n:2, 1:n:3)[right()] = reshape([(real(me * 100 + i, 8), i = 1, n / 2 * (n / 3))], [n / 2, n / 3])
    sync all
    do j = 1, n
      do i = 1, n
        if (mod(i, 2) == 0 .and. mod(j, 3) == 1) then
          call equal('a section put', matrix(i, j), real(left() * 100 + i / 2 + n / 2 * ((j - 1) / 3), 8))
        else
          call equal('beside a section', matrix(i, j), 0d0)
        end if
      end do
    end do
    sync all
  end subroutine

  subroutine components
    integer :: place
    do i = 1, 4
      particles(i) = particle([1d0, 2d0, 3d0] * i, 0)
    end do
    sync all
    particles(3)[right()]%charge = me
    particles(2)[right()] = particle([7d0, 8d0, 9d0], -me)
    sync all
    call equal('a component put', particles(3)%charge, left())
    call equal('its neighbour', particles(3)%place(3), 9d0)
    call equal('a whole one put', particles(2)%charge, -left())
    call equal('a component got', particles(2)[right()]%place(2), 8d0)
    sync all
    ! Memory that each image has in another place and number: gets follow the addresses.
    allocate (mine%row(5 * me))
    mine%row = [(real(me, 8) / i, i = 1, 5 * me)]
    sync all
    place = 5 * right()
    call equal('behind an allocatable component', mine[right()]%row(place), real(right(), 8) / place)
    sync all
    deallocate (mine%row)
    sync all
  end subroutine

  ! Not here: under any MPI, OpenCoarrays 2.10 refuses gfortran's atomic_or, takes its atomic_xor for an or, and
  ! does not say what was there before an atomic_fetch_add.
  subroutine atomics
    integer(atomic_int_kind) :: before
    call atomic_define(atom, 0)
    if (me == 1) bits = [0, 7, 6, 5]
    sync all
    do times = 1, 100
      call atomic_add(atom[1], me)
    end do
    sync all
    call atomic_ref(before, atom[1])
    call equal('atomic_add', before, 100 * images * (images + 1) / 2)
    sync all
    call atomic_define(atom[right()], 41 + me)
    sync all
    call atomic_ref(before, atom)
    call equal('atomic_define', before, 41 + left())
    sync all
    if (me == images) then
      call atomic_and(bits(2)[1], 5)
      call atomic_fetch_add(bits(4)[1], 3, before)
    end if
    sync all
    if (me == 1) then
      call equal('atomic_and', bits(2), 5)
      call equal('beside atomic_and', bits(3), 6)
      call equal('atomic_fetch_add', bits(4), 8)
    end if
    if (me == 1) call atomic_define(atom, 0)
    sync all
    ! One of them wins each turn.
    do times = 1, 50
      do
        call atomic_ref(before, atom[1])
        call atomic_cas(atom[1], old, before, before + 1)
        if (old == before) exit
      end do
    end do
    sync all
    call atomic_ref(before, atom[1])
    call equal('atomic_cas', before, 50 * images)
    sync all
  end subroutine

  subroutine events
    integer :: count
    do times = 1, 20
      row(1)[right()] = times
      event post (arrived[right()])
      event wait (arrived)
      call equal('a put before an event', row(1), times)
      sync all
    end do
    event post (slots(me)[1])
    event post (slots(me)[1])
    if (me == 1) then
      do i = 1, images
        event wait (slots(i), until_count=2)
        call event_query(slots(i), count)
        call equal('events left', count, 0)
      end do
    end if
    sync all
  end subroutine

  subroutine locks_and_critical
    logical :: got_it
    counter = 0
    sync all
    do times = 1, 25
      lock (lock[1])
      counter[1] = counter[1] + 1
      unlock (lock[1])
      critical
        counter[images] = counter[images] + 1000
      end critical
    end do
    sync all
    if (images == 1) then
      call equal('lock and critical', counter, 25025)
    else
      if (me == 1) call equal('lock', counter, 25 * images)
      if (me == images) call equal('critical', counter, 25000 * images)
    end if
    sync all
    if (me == 1) then
      lock (lock[images], acquired_lock=got_it)
      if (.not. got_it) error stop 'a free lock was not acquired'
    end if
    sync all
    if (me == 2) then
      lock (lock[images], acquired_lock=got_it)
      if (got_it) error stop 'a lock that another image holds was acquired'
    end if
    sync all
    if (me == 1) unlock (lock[images])
    sync all
  end subroutine

  subroutine collectives
    integer :: sums(3), greatest
    real(8) :: least, whole(2)
    sums = [me, 2 * me, 1]
    call co_sum(sums)
    call equal('co_sum', sums(2), images * (images + 1))
    call equal('co_sum of ones', sums(3), images)
    greatest = me
    call co_max(greatest)
    call equal('co_max', greatest, images)
    least = 10 + me
    call co_min(least, result_image=1)
    if (me == 1) call equal('co_min', least, 11d0)
    whole = me
    call co_broadcast(whole, source_image=images)
    call equal('co_broadcast', whole(2), real(images, 8))
    greatest = me + 1
    call co_reduce(greatest, product_of)
    call equal('co_reduce', greatest, product([(i + 1, i = 1, images)]))
  end subroutine

  pure function product_of(a, b) result(c)
    integer, intent(in) :: a, b
    integer :: c
    c = a * b
  end function

  subroutine allocating
    integer :: length
    do times = 1, 10
      length = 1000 * times
      allocate (wide(length)[*])
      wide = me
      sync all
      wide(length / 2:)[right()] = wide(length / 2:)[left()] * 0 + me
      sync all
      call equal('allocated, before', int(wide(length / 2 - 1)), me)
      call equal('allocated, behind', int(wide(length)), left())
      sync all
      deallocate (wide)
    end do
  end subroutine
end program
