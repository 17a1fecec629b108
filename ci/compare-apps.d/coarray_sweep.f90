! The sweep of sweep.c with coarrays: rows as argument, an element is put to the next image, and an event says so. The
! image waits for another event before it puts the next one.
program coarray_sweep
  use iso_fortran_env, only: event_type, int64, real64
  implicit none
  integer, parameter :: columns = 64, iterations = 10
  real(real64), allocatable :: matrix(:, :)
  real(real64) :: arrived[*]
  type(event_type) :: here[*], read[*]
  integer :: me, images, next, rows, iteration, i, j
  integer(int64) :: begun, ended, rate
  character(20) :: argument

  me = this_image()
  images = num_images()
  next = merge(1, me + 1, me == images)
  call get_command_argument(1, argument)
  read (argument, *) rows
  ! Row j of a column is matrix(j, i), so that a sweep goes through memory in order. Column 0 is the image's before.
  allocate (matrix(0:columns, rows))
  matrix(:, 1) = [(real((me - 1)*columns + j - 1, real64), j=0, columns)]
  if (me == 1) matrix(1, :) = [(real(i - 1, real64), i=1, rows)]
  sync all

  call system_clock(begun, rate)
  do iteration = 1, iterations
    do i = 2, rows
      if (me > 1) then
        event wait (here)
        matrix(0, i) = arrived
        event post (read[me - 1])
      end if
      do j = merge(2, 1, me == 1), columns
        matrix(j, i) = matrix(j, i - 1) + matrix(j - 1, i) - matrix(j - 1, i - 1)
      end do
      if (me < images) then
        if (i > 2 .or. iteration > 1) event wait (read)
        arrived[next] = matrix(columns, i)
        event post (here[next])
      end if
    end do
    ! So that the next iteration's values differ.
    if (me == images) then
      arrived[1] = -matrix(columns, rows)
      event post (here[1])
    else if (me == 1) then
      event wait (here)
      matrix(1, 1) = arrived
    end if
  end do
  sync all
  call system_clock(ended)

  if (me == 1) then
    if (-matrix(1, 1) /= real(iterations, real64)*(rows - 1 + images*columns - 1)) error stop 'wrong: the corner'
    print '(a, f16.9)', 'coarray_sweep', real(ended - begun, real64)/rate
    print '(a)', 'passed'
    flush (6)
  end if
  sync all
end program
