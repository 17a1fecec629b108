//! The two system calls that puts to and gets from caller-owned memory use, measured by themselves, for comparison with
//! windows over such memory.

use std::hint::black_box;
use std::io;

use transom::devices::REGISTRY;

use super::engine::{Bench, Line, Scale, TARGET};
use super::error::{BenchError, Result};
use super::memory::ZeroedMemory;
use super::record::What;

pub(super) const LINES: usize = 4;

/// The target's memory.
#[derive(Clone, Copy)]
pub(super) struct There {
    pid: libc::pid_t,
    at: usize,
}

/// One of the two calls.
type Call = unsafe extern "C" fn(
    libc::pid_t,
    *const libc::iovec,
    libc::c_ulong,
    *const libc::iovec,
    libc::c_ulong,
    libc::c_ulong,
) -> libc::ssize_t;

/// Collective. The target's memory, if all ranks can access each other's memory by these calls.
pub(super) fn find(bench: &Bench<'_>, memory: &ZeroedMemory) -> Result<Option<There>> {
    let comm = bench.comm;
    if bench.job.device_name() != REGISTRY.name_on_one_host() {
        return Ok(None);
    }
    let own = [
        u64::from(std::process::id()),
        memory.pointer().addr() as u64,
    ];
    let places = comm.allgather(&own)?;
    let target = 2 * TARGET as usize;
    let there = There {
        pid: places[target] as libc::pid_t,
        at: places[target + 1] as usize,
    };
    let mut word = [0; 8];
    // SAFETY: a local of that length.
    let works = unsafe { moves(libc::process_vm_readv, there, word.as_mut_ptr(), 8).is_ok() };
    let all_work = !comm.allgather(&[u8::from(works)])?.contains(&0);
    Ok(all_work.then_some(there))
}

pub(super) fn run(bench: &mut Bench<'_>, there: There, buffer: *mut u8) -> Result<()> {
    bench.group("the system calls alone")?;
    let calls: [(&str, &str, Call); 2] = [
        ("get", "process_vm_readv", libc::process_vm_readv),
        ("put", "process_vm_writev", libc::process_vm_writev),
    ];
    let large = Scale::Gigabytes((64 << 10) as f64);
    let sizes = [
        ("8_by_kernel", 8, 20_000, Scale::Nanoseconds(1.0)),
        ("64K_bw_by_kernel", 64 << 10, 500, large),
    ];
    for (name, op, call) in calls {
        for (suffix, len, iterations, scale) in sizes {
            let line = Line {
                name: &format!("{name}{suffix}"),
                what: What::new(op, len, "none"),
                iterations,
                scale,
            };
            let (call, there, buffer, len) = black_box((call, there, buffer, len));
            let mut failed = None;
            bench.origin(line, || {
                // SAFETY: the buffer has this length, and only this thread accesses it.
                if let Err(error) = unsafe { moves(call, there, buffer, len) } {
                    failed = Some(error);
                }
                Ok(())
            })?;
            if let Some(source) = failed {
                return Err(BenchError::Attach(source));
            }
        }
    }
    Ok(())
}

/// # Safety
/// `buffer` is readable and writable for `len` bytes.
unsafe fn moves(call: Call, there: There, buffer: *mut u8, len: usize) -> io::Result<()> {
    let part = |base: *mut u8| libc::iovec {
        iov_base: base.cast(),
        iov_len: len,
    };
    let (near, far) = (
        part(buffer),
        part(std::ptr::without_provenance_mut(there.at)),
    );
    // SAFETY: the caller promises that the local part is valid. The kernel checks the remote one.
    match unsafe { call(there.pid, &raw const near, 1, &raw const far, 1, 0) } {
        moved if moved == len as isize => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
