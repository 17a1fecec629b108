//! What becomes of the errors of a window's calls (MPI-4.1, section 9.3).

use std::fmt;
use std::process::exit;
use std::sync::Arc;

use super::Window;
use crate::error::{AbortCause, Error, Result};
use crate::wait::lock;

/// A user's error handler.
pub type ErrorFunction = dyn Fn(&Window, &Error) + Send + Sync;

/// What [`Window::handled`](crate::raw::Window::handled) does with an error.
#[derive(Clone, Default)]
pub enum ErrorHandler {
    /// Returns it (`MPI_ERRORS_RETURN`): the default, as is usual in Rust.
    #[default]
    Return,
    /// Prints it and ends the job; the exit code is the number of its class
    /// (`MPI_ERRORS_ARE_FATAL`, MPI's default).
    Fatal,
    /// As [`ErrorHandler::Fatal`]. MPI only requires the end of the window's ranks, but launchers
    /// can only end a whole job (`MPI_ERRORS_ABORT`).
    Abort,
    /// Calls a function, and then returns the error (`MPI_Win_create_errhandler`).
    Function(Arc<ErrorFunction>),
}

impl fmt::Debug for ErrorHandler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Return => "Return",
            Self::Fatal => "Fatal",
            Self::Abort => "Abort",
            Self::Function(_) => "Function(..)",
        })
    }
}

impl Window {
    /// Local. The handler of this rank's errors (MPI-4.1, section 9.3.2, `MPI_Win_get_errhandler`).
    #[must_use]
    pub fn error_handler(&self) -> ErrorHandler {
        lock(&self.error_handler).clone()
    }

    /// Local. Sets the handler of this rank's errors (MPI-4.1, section 9.3.2,
    /// `MPI_Win_set_errhandler`).
    pub fn set_error_handler(&self, handler: ErrorHandler) {
        *lock(&self.error_handler) = handler;
    }

    /// Local. Makes a call, and passes its error to the window's [`ErrorHandler`]. The window's own
    /// calls always return their errors, so handlers act only here. Success costs nothing.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use transom::raw::{Assert, ErrorHandler, Window};
    ///
    /// # fn main() -> transom::Result<()> {
    /// # let job = transom::Job::init()?;
    /// let window = Window::allocate(job.world(), 64, 1, &transom::Info::new())?;
    /// window.set_error_handler(ErrorHandler::Function(Arc::new(|window, error| {
    ///     eprintln!("window of {} ranks: {error}", window.ranks());
    /// })));
    /// let unlocked = window.handled(|window| window.unlock(0));
    /// assert!(unlocked.is_err());
    /// window.handled(|window| window.fence(Assert::NO_SUCCEED))?;
    /// window.free()
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of the call, if the handler returns.
    #[inline]
    pub fn handled<R>(&self, call: impl FnOnce(&Self) -> Result<R>) -> Result<R> {
        call(self).map_err(|error| self.call_error_handler(error))
    }

    /// Local. Passes an error to the window's [`ErrorHandler`] (MPI-4.1, section 9.5,
    /// `MPI_Win_call_errhandler`), and returns it if the handler returns.
    #[cold]
    pub fn call_error_handler(&self, error: Error) -> Error {
        match self.error_handler() {
            ErrorHandler::Return => {}
            ErrorHandler::Fatal | ErrorHandler::Abort => self.end_job(&error),
            ErrorHandler::Function(function) => function(self, &error),
        }
        error
    }

    fn end_job(&self, error: &Error) -> ! {
        let name = match self.name() {
            name if name.is_empty() => String::new(),
            name => format!(" {name:?}"),
        };
        let message = format!("rank {}, window{name}: {error}", self.context().rank());
        eprintln!("{message}");
        let code = error.class() as i32;
        self.context().abort_everywhere(AbortCause::Aborted);
        self.context().report_abort_to_launcher(code, &message);
        exit(code);
    }
}
