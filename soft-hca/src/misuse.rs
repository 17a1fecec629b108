//! Telling what a program does wrong and an adapter would not say, or only by failing in some other way.

use std::env;
use std::fmt;
use std::sync::OnceLock;

use crate::context::Context;
use crate::process;
use crate::settings::ABORT;

pub(crate) fn tell(context: &Context, words: fmt::Arguments<'_>) {
    context.counters().misuses.add(1);
    let process = process::own();
    eprintln!(
        "soft-hca: process {process}, {}: MISUSE: {words}",
        context.name()
    );
    static ENDS: OnceLock<bool> = OnceLock::new();
    if *ENDS.get_or_init(|| env::var_os(ABORT).is_some()) {
        std::process::abort();
    }
}
