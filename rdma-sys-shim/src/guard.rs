//! Accesses to memory that may have been unmapped: a fault ends only the access.
//!
//! Peers ask threads of this process to access memory of the program. The program may have made it inaccessible
//! (`mprotect`, `munmap`, a truncated file). Then a copy by the kernel would fail with an error, and so does a guarded
//! access: a handler of SIGSEGV and SIGBUS makes the thread return from [`guarded`]. Every other fault is passed on to
//! the previous handler.
//!
//! The guarded code holds no lock and no value with a destructor. The handler is installed with the first region that
//! peers cannot map, or with the first agent. Only x86-64 and aarch64 have guarded accesses: elsewhere such a fault
//! kills the process.

use std::cell::Cell;
use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::OnceLock;

/// A guarded access touched memory that is not mapped with the necessary right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AccessFault;

/// The memory on which a thread may fault.
struct Guarded {
    start: Cell<usize>,
    len: Cell<usize>,
    /// The stack pointer to return with; 0 outside of [`guarded`].
    stack: Cell<usize>,
}

thread_local! {
    // Without a destructor and lazy initialisation, so that a signal handler may use it.
    static GUARDED: Guarded = const {
        Guarded {
            start: Cell::new(0),
            len: Cell::new(0),
            stack: Cell::new(0),
        }
    };
}

/// Runs `body`, which may fault on the `len` bytes at `start`. A fault ends it; earlier effects remain. Without an
/// earlier call of [`watch`], or on processors other than x86-64 and aarch64, a fault remains the program's own.
///
/// # Safety
/// While `body` accesses these bytes, no function that it has called holds a lock or a value with a destructor. The
/// accesses are by assembly or atomics, about which the compiler assumes nothing.
#[inline]
pub(crate) unsafe fn guarded<T: Copy>(
    start: *const u8,
    len: usize,
    body: impl FnOnce() -> T,
) -> Result<T, AccessFault> {
    struct Call<F, T> {
        body: Option<F>,
        result: MaybeUninit<T>,
    }

    /// # Safety
    /// `call` is a `Call<F, T>` that nobody else uses.
    unsafe extern "C" fn run<F: FnOnce() -> T, T>(call: *mut c_void) {
        // SAFETY: the caller's promise.
        let call = unsafe { &mut *call.cast::<Call<F, T>>() };
        if let Some(body) = call.body.take() {
            call.result.write(body());
        }
    }

    fn run_of<F: FnOnce() -> T, T>(_: &Call<F, T>) -> Run {
        run::<F, T>
    }

    let mut call = Call {
        body: Some(body),
        result: MaybeUninit::uninit(),
    };
    let run = run_of(&call);
    GUARDED.with(|guarded| {
        guarded.start.set(start.addr());
        guarded.len.set(len);
        // SAFETY: `call` is a local that `run` was made for. A fault ends only frames of `body`, which the caller
        // vouches for, and frames of `run`, which then has nothing to drop: it has moved `body` on.
        let faulted = unsafe { arch::enter(run, (&raw mut call).cast(), guarded.stack.as_ptr()) };
        guarded.stack.set(0);
        match faulted {
            // SAFETY: `run` has returned, and wrote the result before.
            0 => Ok(unsafe { call.result.assume_init() }),
            _ => Err(AccessFault),
        }
    })
}

type Run = unsafe extern "C" fn(*mut c_void);

/// The signals, and the code for unmapped memory; SIGSEGV has a second code for a missing right.
const SIGNALS: [libc::c_int; 2] = [libc::SIGSEGV, libc::SIGBUS];
const SEGV_MAPERR: libc::c_int = 1;
const SEGV_ACCERR: libc::c_int = 2;

/// The previous actions for these signals.
static BEFORE: OnceLock<[libc::sigaction; 2]> = OnceLock::new();

/// From now on, a fault of a guarded access ends that access.
pub(crate) fn watch() {
    if !cfg!(any(target_arch = "x86_64", target_arch = "aarch64")) {
        return;
    }
    BEFORE.get_or_init(|| SIGNALS.map(install));
}

/// Installs the handler in front of the program's, with the flags that the program asked for. Returns the previous
/// action.
fn install(signal: libc::c_int) -> libc::sigaction {
    // SAFETY: zeroes are a valid sigaction, to which the kernel writes; the handler keeps to what handlers may do.
    unsafe {
        let mut before: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, ptr::null(), &raw mut before);
        let mut ours = before;
        ours.sa_sigaction = on_fault as *const () as usize;
        let asked = before.sa_flags & (libc::SA_ONSTACK | libc::SA_NODEFER | libc::SA_RESTART);
        ours.sa_flags = libc::SA_SIGINFO
            | if is_handler(&before) {
                asked
            } else {
                libc::SA_ONSTACK
            };
        libc::sigaction(signal, &raw const ours, &raw mut before);
        before
    }
}

fn is_handler(action: &libc::sigaction) -> bool {
    !matches!(action.sa_sigaction, libc::SIG_DFL | libc::SIG_IGN)
}

/// # Safety
/// The kernel calls it, for a signal of `SIGNALS`.
unsafe extern "C" fn on_fault(
    signal: libc::c_int,
    info: *mut libc::siginfo_t,
    context: *mut c_void,
) {
    // SAFETY: the kernel passes records that are valid until the handler returns; a fault's has an address.
    unsafe {
        let is_of_memory = match (signal, (*info).si_code) {
            (libc::SIGSEGV, code) => matches!(code, SEGV_MAPERR | SEGV_ACCERR),
            (_, code) => code == libc::BUS_ADRERR,
        };
        let stack = is_of_memory.then(|| guarded_stack((*info).si_addr().addr()));
        match stack.flatten() {
            // SAFETY (of the frames that end): `guarded` requires it.
            Some(stack) => arch::leave_with(context.cast(), stack),
            None => pass_on(signal, info, context),
        }
    }
}

/// The stack pointer for leaving a guarded access of this thread that faulted at `address`; `None` if there is none.
fn guarded_stack(address: usize) -> Option<usize> {
    GUARDED.with(|guarded| {
        let is_inside = address.wrapping_sub(guarded.start.get()) < guarded.len.get();
        let stack = guarded.stack.get();
        (is_inside && stack != 0).then_some(stack)
    })
}

/// Does what would happen without this module.
///
/// # Safety
/// As for [`on_fault`].
unsafe fn pass_on(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let which = usize::from(signal != SIGNALS[0]);
    // SAFETY: `info` is valid. The program installed the handler for arguments of this kind; handlers may make these
    // calls.
    unsafe {
        // A signal that arrives during the installation gets the default action.
        let before = match BEFORE.get() {
            Some(all) => all[which],
            None => std::mem::zeroed(),
        };
        // Another process or thread sent it: no instruction will be executed again.
        let is_sent = (*info).si_code <= 0;
        let ignores = before.sa_sigaction == libc::SIG_IGN;
        if !is_handler(&before) {
            if is_sent && ignores {
                return;
            }
            // The fault occurs again, without a handler.
            libc::sigaction(signal, &raw const before, ptr::null_mut());
            if is_sent {
                libc::raise(signal);
            }
            return;
        }
        if before.sa_flags & libc::SA_RESETHAND != 0 {
            libc::signal(signal, libc::SIG_DFL);
        }
        if before.sa_flags & libc::SA_SIGINFO != 0 {
            type Handler = extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut c_void);
            let handler = std::mem::transmute::<usize, Handler>(before.sa_sigaction);
            handler(signal, info, context);
        } else {
            type Handler = extern "C" fn(libc::c_int);
            let handler = std::mem::transmute::<usize, Handler>(before.sa_sigaction);
            handler(signal);
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod arch {
    use std::arch::naked_asm;
    use std::ffi::c_void;

    use super::Run;

    /// Calls `run(call)` and returns 0, or 1 if a fault ended it.
    ///
    /// # Safety
    /// As for `run`; `stack` is writable.
    #[unsafe(naked)]
    pub(super) unsafe extern "C" fn enter(run: Run, call: *mut c_void, stack: *mut usize) -> u32 {
        // The callee-saved registers are on the stack, for `leave`.
        naked_asm!(
            ".cfi_startproc",
            "push rbp",
            ".cfi_def_cfa_offset 16",
            ".cfi_offset rbp, -16",
            "mov rbp, rsp",
            ".cfi_def_cfa_register rbp",
            "push rbx",
            "push r12",
            "push r13",
            "push r14",
            "push r15",
            "sub rsp, 8",
            "mov [rdx], rsp",
            "mov rax, rdi",
            "mov rdi, rsi",
            "call rax",
            "xor eax, eax",
            "jmp {leave}",
            ".cfi_endproc",
            leave = sym leave,
        )
    }

    /// Returns from [`enter`] with the value of the result register.
    ///
    /// # Safety
    /// Reached by a jump, with the stack of [`enter`].
    #[unsafe(naked)]
    unsafe extern "C" fn leave() {
        naked_asm!(
            "add rsp, 8",
            "pop r15",
            "pop r14",
            "pop r13",
            "pop r12",
            "pop rbx",
            "pop rbp",
            "ret",
        )
    }

    /// Makes the thread return from [`enter`] when its signal handler ends.
    ///
    /// # Safety
    /// `context` belongs to a handler that interrupted a function called by [`enter`], which has stored `stack`.
    pub(super) unsafe fn leave_with(context: *mut libc::ucontext_t, stack: usize) {
        /// The calling convention requires the direction flag to be clear.
        const DIRECTION: i64 = 1 << 10;
        // SAFETY: the kernel's record, which it reads again when the handler ends.
        let registers = unsafe { &mut (*context).uc_mcontext.gregs };
        registers[libc::REG_RSP as usize] = stack as i64;
        registers[libc::REG_RIP as usize] = leave as *const () as i64;
        registers[libc::REG_RAX as usize] = 1;
        registers[libc::REG_EFL as usize] &= !DIRECTION;
    }
}

#[cfg(target_arch = "aarch64")]
mod arch {
    use std::arch::naked_asm;
    use std::ffi::c_void;

    use super::Run;

    /// Calls `run(call)` and returns 0, or 1 if a fault ended it.
    ///
    /// # Safety
    /// As for `run`; `stack` is writable.
    #[unsafe(naked)]
    pub(super) unsafe extern "C" fn enter(run: Run, call: *mut c_void, stack: *mut usize) -> u32 {
        // The callee-saved registers are on the stack, for `leave`.
        naked_asm!(
            ".cfi_startproc",
            "stp x29, x30, [sp, #-160]!",
            ".cfi_def_cfa_offset 160",
            ".cfi_offset x29, -160",
            ".cfi_offset x30, -152",
            "mov x29, sp",
            "stp x19, x20, [sp, #16]",
            "stp x21, x22, [sp, #32]",
            "stp x23, x24, [sp, #48]",
            "stp x25, x26, [sp, #64]",
            "stp x27, x28, [sp, #80]",
            "stp d8, d9, [sp, #96]",
            "stp d10, d11, [sp, #112]",
            "stp d12, d13, [sp, #128]",
            "stp d14, d15, [sp, #144]",
            "mov x9, sp",
            "str x9, [x2]",
            "mov x9, x0",
            "mov x0, x1",
            "blr x9",
            "mov x0, #0",
            "b {leave}",
            ".cfi_endproc",
            leave = sym leave,
        )
    }

    /// Returns from [`enter`] with the value of the result register.
    ///
    /// # Safety
    /// Reached by a jump, with the stack of [`enter`].
    #[unsafe(naked)]
    unsafe extern "C" fn leave() {
        naked_asm!(
            "ldp x19, x20, [sp, #16]",
            "ldp x21, x22, [sp, #32]",
            "ldp x23, x24, [sp, #48]",
            "ldp x25, x26, [sp, #64]",
            "ldp x27, x28, [sp, #80]",
            "ldp d8, d9, [sp, #96]",
            "ldp d10, d11, [sp, #112]",
            "ldp d12, d13, [sp, #128]",
            "ldp d14, d15, [sp, #144]",
            "ldp x29, x30, [sp], #160",
            "ret",
        )
    }

    /// Makes the thread return from [`enter`] when its signal handler ends.
    ///
    /// # Safety
    /// `context` belongs to a handler that interrupted a function called by [`enter`], which has stored `stack`.
    pub(super) unsafe fn leave_with(context: *mut libc::ucontext_t, stack: usize) {
        // SAFETY: the kernel's record, which it reads again when the handler ends.
        let registers = unsafe { &mut (*context).uc_mcontext };
        registers.sp = stack as u64;
        registers.pc = leave as *const () as u64;
        registers.regs[0] = 1;
    }
}

/// Without a guard, for other processors.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
mod arch {
    use std::ffi::c_void;

    use super::Run;

    /// # Safety
    /// As for `run`.
    pub(super) unsafe fn enter(run: Run, call: *mut c_void, _: *mut usize) -> u32 {
        // SAFETY: the caller's promise.
        unsafe { run(call) };
        0
    }

    /// # Safety
    /// Any.
    pub(super) unsafe fn leave_with(_: *mut libc::ucontext_t, _: usize) {}
}

/// Held by tests that set handlers, or rely on those of this module.
#[cfg(test)]
pub(crate) fn alone() -> std::sync::MutexGuard<'static, ()> {
    static LOCK: std::sync::Mutex<()> = std::sync::Mutex::new(());
    LOCK.lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[cfg(all(test, not(loom)))]
mod tests;
