! Windows by the module mpi, as windows_f77.f90 has them by mpif.h.
program windows_mpi
  use mpi
  implicit none
  include 'windows.inc'
end program
