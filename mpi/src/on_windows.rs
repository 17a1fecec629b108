//! How calls on windows are exported: they go to us for our windows, and to the host for its own.

/// A call on a window: runs the body for a window of ours, which is `$ours` there, and otherwise the host's function.
macro_rules! either {
    ($mpi:ident $pmpi:ident($($arg:ident: $ty:ty),*) of $win:ident as $ours:ident $body:block) => {
        match $crate::windows::find($win) {
            Some($ours) => $crate::errors::told(stringify!($mpi), $win, $body),
            // SAFETY: the host's function gets what the program passed, as it would without us.
            None => unsafe { $crate::host::host!($pmpi($($ty),*))($($arg),*) },
        }
    };
}
pub(crate) use either;

/// Calls on windows.
macro_rules! on_windows {
    ($(fn $mpi:ident $pmpi:ident($($arg:ident: $ty:ty),* $(,)?) of $win:ident as $ours:ident $body:block)*) => {
        $crate::exported::exported! {$(
            fn $mpi $pmpi($($arg: $ty),*) {
                $crate::on_windows::either!($mpi $pmpi($($arg: $ty),*) of $win as $ours $body)
            }
        )*}
    };
}
pub(crate) use on_windows;

/// As `on_windows`, with a fast path for a window that was used lately. `at_once` returns 0 if it has done all. It
/// calls functions only just before that, so that the arguments stay in their registers for the rest.
macro_rules! quick_on_windows {
    ($(fn $mpi:ident $pmpi:ident($($arg:ident: $ty:ty),* $(,)?) of $win:ident as $ours:ident
        at_once $window:ident $at_once:block else $body:block)*) => {
        $crate::exported::exported! {$(
            fn $mpi $pmpi($($arg: $ty),*) {
                #[cold]
                #[inline(never)]
                unsafe extern "C" fn else_call($($arg: $ty),*) -> std::ffi::c_int {
                    $crate::on_windows::either!($mpi $pmpi($($arg: $ty),*) of $win as $ours $body)
                }

                if let Some(ours) = $crate::windows::lately($win) {
                    // SAFETY: the program uses the handle in this call, so no thread may free the window during it.
                    let $window = unsafe { ours.quick_window() };
                    $at_once
                }
                // SAFETY: the program's own arguments.
                unsafe { else_call($($arg),*) }
            }
        )*}
    };
}
pub(crate) use quick_on_windows;
