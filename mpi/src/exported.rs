//! How functions of MPI are exported: under both names, with the host's own behind them.

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

/// Calls on a window: the body if it is one of ours, as `$ours`, and else the host's function.
macro_rules! on_windows {
    ($(fn $mpi:ident $pmpi:ident($($arg:ident: $ty:ty),* $(,)?) of $win:ident as $ours:ident $body:block)*) => {
        $crate::exported::exported! {$(
            fn $mpi $pmpi($($arg: $ty),*) {
                match $crate::windows::find($win) {
                    Some($ours) => $crate::errors::told(stringify!($mpi), $win, $body),
                    // SAFETY: what the program passed goes on to where it would have gone without us.
                    None => unsafe { $crate::host::host!($pmpi($($ty),*))($($arg),*) },
                }
            }
        )*}
    };
}
pub(crate) use on_windows;
