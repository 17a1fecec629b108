//! A few atomics on this process's own memory, before anybody relies on them.

use super::device::VerbsDevice;
use super::endpoint::VerbsEndpoint;
use crate::{Device, Endpoint, Error, Result, Ticket, Width};

/// A number whose bytes are all different, so that a wrong order of bytes shows.
const START: u64 = 0x0102_0304_0506_0708;
const ADD: u64 = 0x1112_1314_1516_1718;
const NEW: u64 = 0x2122_2324_2526_2728;

/// Fetch_add and compare_swap through the device, to itself: some devices have answered in the
/// other byte order.
///
/// # Errors
/// An answer or a word is not what it has to be.
pub(super) fn atomics(device: &VerbsDevice, to_self: &VerbsEndpoint) -> Result<()> {
    let region = device.allocate(8, 8)?;
    let at = region.remote().at(0);
    let word = region.base().cast::<u64>();
    let done = |ticket: Ticket| to_self.wait(ticket);
    let mut answers = [0; 3];
    // SAFETY: the region is ours and lives to the end of this function; every operation is complete
    // before the next step, and so before `answers` goes.
    let end = unsafe {
        word.write_volatile(START);
        done(to_self.fetch_add(at, Width::W8, ADD, &raw mut answers[0])?)?;
        let sum = START + ADD;
        done(to_self.compare_swap(at, Width::W8, sum, NEW, &raw mut answers[1])?)?;
        done(to_self.compare_swap(at, Width::W8, sum, START, &raw mut answers[2])?)?;
        word.read_volatile()
    };
    let wanted = [START, START + ADD, NEW];
    if answers == wanted && end == NEW {
        return Ok(());
    }
    Err(Error::BrokenAtomics {
        device: device.name().to_owned(),
        found: [answers[0], answers[1], answers[2], end],
        wanted: [wanted[0], wanted[1], wanted[2], NEW],
    })
}
