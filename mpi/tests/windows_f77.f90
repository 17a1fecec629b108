! Windows by mpif.h, as windows_mpi.f90 has them by the module.
program windows_f77
  implicit none
  include 'mpif.h'
  include 'windows.inc'
end program
