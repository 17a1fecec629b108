//! Terminals for commands that behave differently if their output is a terminal.

use std::fs::File;
use std::os::fd::{FromRawFd as _, OwnedFd};
use std::ptr;

/// A new terminal with `columns` columns: the side that a test reads, and the one that a program uses.
#[must_use]
pub fn terminal(columns: u16) -> (File, OwnedFd) {
    let (mut screen, mut terminal) = (-1, -1);
    let size = libc::winsize {
        ws_row: 24,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    let (name, settings) = (ptr::null_mut(), ptr::null());
    // SAFETY: the descriptors are written to live integers, the size is live; name and settings may be null.
    let made = unsafe {
        libc::openpty(
            &raw mut screen,
            &raw mut terminal,
            name,
            settings,
            &raw const size,
        )
    };
    assert_eq!(made, 0);
    // SAFETY: the kernel has just made both descriptors, and nothing else owns them.
    unsafe {
        libc::fcntl(screen, libc::F_SETFD, libc::FD_CLOEXEC);
        (File::from_raw_fd(screen), OwnedFd::from_raw_fd(terminal))
    }
}
