//! Telling what a program does wrong and an adapter would not say, or only by failing in some other way.

use std::backtrace::Backtrace;
use std::env;
use std::fmt;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::sync::OnceLock;

use crate::context::Context;
use crate::process;
use crate::settings::{ABORT, BACKTRACE};
use crate::sysfs;

/// Writes a line to standard error, and for the launcher, since programs may hide what their processes write.
pub(crate) fn tell(context: &Context, words: fmt::Arguments<'_>) {
    context.counters().misuses.add(1);
    let mut line = format!(
        "soft-hca: process {}, {}: MISUSE: {words}\n",
        process::own(),
        context.name()
    );
    if env::var_os(BACKTRACE).is_some() {
        line += &Backtrace::force_capture().to_string();
    }
    eprint!("{line}");
    let mut options = OpenOptions::new();
    let file = options.append(true).create(true);
    if let Ok(mut file) = file.open(sysfs::misuses(&context.settings().root)) {
        let _ = file.write_all(line.as_bytes());
    }
    static ENDS: OnceLock<bool> = OnceLock::new();
    if *ENDS.get_or_init(|| env::var_os(ABORT).is_some()) {
        std::process::abort();
    }
}
