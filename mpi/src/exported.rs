//! How functions of MPI are exported: under both names, with access to the host's own functions.

/// Functions of MPI under their two names. Open MPI's Fortran wrappers call the second, MPICH's the first.
macro_rules! exported {
    ($(fn $mpi:ident $pmpi:ident($($arg:ident: $ty:ty),* $(,)?) $body:block)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $mpi($($arg: $ty),*) -> std::ffi::c_int $body

        #[unsafe(no_mangle)]
        unsafe extern "C" fn $pmpi($($arg: $ty),*) -> std::ffi::c_int $body
    )*};
}
pub(crate) use exported;

/// The same, with a closure that calls the host's function with the same arguments.
macro_rules! in_front {
    ($(fn $mpi:ident $pmpi:ident($($arg:ident: $ty:ty),* $(,)?) or $host:ident $body:block)*) => {
        $crate::exported::exported! {$(
            fn $mpi $pmpi($($arg: $ty),*) {
                // SAFETY: the host's function gets what the program passed, as it would without us.
                let $host = || unsafe { $crate::host::host!($pmpi($($ty),*))($($arg),*) };
                $body
            }
        )*}
    };
}
pub(crate) use in_front;
