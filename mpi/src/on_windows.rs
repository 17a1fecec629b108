//! How calls on windows are exported: as ours, or as the host's for its own windows.

/// A call on a window: the body if it is one of ours, as `$ours`, and else the host's function.
macro_rules! either {
    ($mpi:ident $pmpi:ident($($arg:ident: $ty:ty),*) of $win:ident as $ours:ident $body:block) => {
        match $crate::windows::find($win) {
            Some($ours) => $crate::errors::told(stringify!($mpi), $win, $body),
            // SAFETY: what the program passed goes on to where it would have gone without us.
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

/// As `on_windows`, with what most calls come to before it, on a window that was used lately. `at_once` returns 0 if
/// that was all; it makes no call but just before that, so that the arguments of all else stay where they are. `quick` is
/// the result of what is done without a look at the rest; all else comes after it.
macro_rules! quick_on_windows {
    ($(fn $mpi:ident $pmpi:ident($($arg:ident: $ty:ty),* $(,)?) of $win:ident as $ours:ident
        at_once $window:ident $at_once:block $(quick $quick:block)? else $body:block)*) => {
        $crate::exported::exported! {$(
            fn $mpi $pmpi($($arg: $ty),*) {
                #[cold]
                #[inline(never)]
                unsafe extern "C" fn else_call($($arg: $ty),*) -> std::ffi::c_int {
                    $(if let Some($ours) = $crate::windows::lately($win) {
                        let quick: Option<transom::Result<()>> = $quick;
                        match quick {
                            None => {}
                            Some(Ok(())) => return 0,
                            Some(Err(error)) => return $crate::errors::tell(stringify!($mpi), $win, error),
                        }
                    })?
                    $crate::on_windows::either!($mpi $pmpi($($arg: $ty),*) of $win as $ours $body)
                }

                if let Some(ours) = $crate::windows::lately($win) {
                    // SAFETY: the program uses the handle, so that it frees the window in no thread meanwhile.
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
