! The stencil of stencil.c with coarrays: images have blocks of columns, put their first and last to their neighbours,
! and wait for these by sync images.
program coarray_stencil
  use iso_fortran_env, only: int64, real64
  implicit none
  integer, parameter :: iterations = 200
  real(real64), allocatable :: in(:, :)[:], out(:, :)
  integer, allocatable :: neighbours(:)
  integer :: me, images, n, columns, first, last, iteration, i, j
  integer(int64) :: begun, ended, rate
  character(20) :: argument

  me = this_image()
  images = num_images()
  call get_command_argument(1, argument)
  read (argument, *) n
  if (mod(n, images) /= 0) error stop 'wrong: the size is not a multiple of the images'
  columns = n/images
  neighbours = pack([me - 1, me + 1], [me > 1, me < images])
  ! Columns 0 and columns + 1 are the neighbours'.
  allocate (in(n, 0:columns + 1)[*], out(n, columns))
  in = 0
  out = 0
  do j = 1, columns
    in(:, j) = [(real(i + (me - 1)*columns + j, real64), i=1, n)]
  end do
  first = merge(2, 1, me == 1)
  last = merge(columns - 1, columns, me == images)
  sync all

  call system_clock(begun, rate)
  do iteration = 1, iterations
    if (me > 1) in(:, columns + 1)[me - 1] = in(:, 1)
    if (me < images) in(:, 0)[me + 1] = in(:, columns)
    sync images (neighbours)
    do j = first, last
      do i = 2, n - 1
        out(i, j) = out(i, j) + 0.5_real64*(in(i + 1, j) - in(i - 1, j) + in(i, j + 1) - in(i, j - 1))
      end do
    end do
    in(:, 1:columns) = in(:, 1:columns) + 1
    ! The neighbours have read the columns that the next iteration's puts change.
    sync images (neighbours)
  end do
  sync all
  call system_clock(ended)

  if (any(out(2:n - 1, first:last) /= 2*iterations)) error stop 'wrong: an element'
  sync all
  if (me == 1) then
    print '(a, f16.9)', 'coarray_stencil', real(ended - begun, real64)/rate
    print '(a)', 'passed'
    flush (6)
  end if
  sync all
end program
