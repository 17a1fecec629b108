//! An open device.

use std::ffi::CStr;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Once};

use ibverbs_sys as ffi;

use super::{Handle, check, extended, refusal};
use crate::rdma::ObjectKind;
use crate::{Error, Result};

/// An open device. Several threads may call its methods, as libibverbs allows.
pub(crate) struct Context {
    raw: Handle<ffi::ibv_context>,
    name: String,
    attributes: ffi::ibv_device_attr,
    pci_atomics: ffi::ibv_pci_atomic_caps,
}

/// The attributes of a port at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PortAttributes {
    pub(crate) number: u8,
    pub(crate) active: bool,
    pub(crate) lid: u16,
    /// In the numbers of verbs: 1 for 256 bytes to 5 for 4096.
    pub(crate) mtu: u8,
    pub(crate) max_message: u32,
    /// Whether packets in both directions need the global header, for example if virtual functions share a LID.
    pub(crate) needs_gid: bool,
}

/// `IBV_QPF_GRH_REQUIRED`.
const GRH_REQUIRED: u8 = 1;

impl Context {
    /// Opens the device of this name.
    pub(crate) fn open(name: &str) -> Result<Arc<Self>> {
        expect_forks();
        let mut count = 0;
        // SAFETY: takes a place for the length; the list is freed below.
        let list = unsafe { ffi::ibv_get_device_list(&mut count) };
        if list.is_null() {
            return Err(Error::last_os("listing RDMA devices"));
        }
        // SAFETY: the list has `count` entries, each valid until the list is freed.
        let found = unsafe { std::slice::from_raw_parts(list, count.max(0) as usize) }
            .iter()
            .copied()
            .find(|&device| {
                // SAFETY: a device of the list, whose name is a string that lives as long.
                let known = unsafe { CStr::from_ptr(ffi::ibv_get_device_name(device)) };
                known.to_bytes() == name.as_bytes()
            });
        let opened = found.map(|device| {
            // SAFETY: from the list, which is not freed yet. The result alone closes the device.
            unsafe { Handle::new(ffi::ibv_open_device(device), ffi::ibv_close_device) }.ok_or_else(
                || {
                    let call = format!("opening RDMA device {name}");
                    refusal(call, io::Error::last_os_error(), name, ObjectKind::Handle)
                },
            )
        });
        // SAFETY: the list that was handed out above; an open context does not need it.
        unsafe { ffi::ibv_free_device_list(list) };
        let raw = opened.ok_or_else(|| Error::NoDriver {
            device: name.to_owned(),
        })??;
        let mut context = Self {
            pci_atomics: extended::attributes(raw.raw())
                .map(|attributes| attributes.pci_atomic_caps)
                .unwrap_or_default(),
            raw,
            name: name.to_owned(),
            attributes: ffi::ibv_device_attr::default(),
        };
        // SAFETY: an open context and a place for the answer.
        let code = unsafe { ffi::ibv_query_device(context.raw(), &mut context.attributes) };
        check(|| format!("querying RDMA device {name}"), code)?;
        Ok(Arc::new(context))
    }

    pub(crate) fn raw(&self) -> *mut ffi::ibv_context {
        self.raw.raw()
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The device's limits.
    pub(crate) fn attributes(&self) -> &ffi::ibv_device_attr {
        &self.attributes
    }

    /// Whether it has atomics, in any domain.
    pub(crate) fn has_atomics(&self) -> bool {
        self.attributes.atomic_cap != ffi::IBV_ATOMIC_NONE
    }

    /// The atomics for which the device uses the bus, so that they are atomic to the processor's. None if it does not
    /// say.
    pub(crate) fn pci_atomics(&self) -> ffi::ibv_pci_atomic_caps {
        self.pci_atomics
    }

    /// The descriptor that reports asynchronous events.
    pub(crate) fn async_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: an open context, whose fields libibverbs does not change, and which keeps the descriptor open.
        unsafe { BorrowedFd::borrow_raw((*self.raw()).async_fd) }
    }

    pub(crate) fn port(&self, number: u8) -> Result<PortAttributes> {
        let mut port = ffi::ibv_port_attr::default();
        let place: *mut ffi::ibv_port_attr = &mut port;
        // SAFETY: an open context; the symbol fills a leading part of the structure, the rest was
        // zeroed above, as the header's inline function does it.
        let code = unsafe { ffi::ibv_query_port(self.raw(), number, place.cast()) };
        check(|| format!("querying port {number} of {}", self.name), code)?;
        Ok(PortAttributes {
            number,
            active: port.state == ffi::ibv_port_state::IBV_PORT_ACTIVE,
            lid: port.lid,
            mtu: port.active_mtu as u8,
            max_message: port.max_msg_sz,
            needs_gid: port.flags & GRH_REQUIRED != 0,
        })
    }

    /// The keys of the port's partitions.
    fn partition_keys(&self, port: u8) -> impl Iterator<Item = u16> {
        (0..self.attributes.max_pkeys).map_while(move |index| {
            let mut entry = 0;
            // SAFETY: an open context and a place for the answer.
            let code = unsafe { ffi::ibv_query_pkey(self.raw(), port, index.into(), &mut entry) };
            // The tables of two ports may differ in length.
            (code == 0).then(|| u16::from_be(entry))
        })
    }

    /// The index of a partition's key in the port's table; that of full membership if the port has it.
    ///
    /// # Errors
    /// The port does not belong to the partition.
    pub(crate) fn partition(&self, port: u8, key: u16) -> Result<Partition> {
        let known: Vec<u16> = self.partition_keys(port).collect();
        place_of(key, &known).ok_or_else(|| Error::NoPartition {
            device: self.name.clone(),
            port,
            key,
            known: written(&known),
        })
    }

    /// The first key with full membership, otherwise the first key. Limited members reach only full members, and ranks
    /// have to reach each other.
    pub(crate) fn first_partition(&self, port: u8) -> Partition {
        let first = first_place(self.partition_keys(port)).unwrap_or_default();
        if first.is_limited() {
            tracing::warn!(
                device = self.name,
                port,
                "the port is a limited member of its partitions, which reaches full members only"
            );
        }
        first
    }

    pub(crate) fn gid(&self, port: u8, index: u8) -> Result<[u8; 16]> {
        let mut gid = ffi::ibv_gid::default();
        // SAFETY: an open context and a place for the answer.
        let code = unsafe { ffi::ibv_query_gid(self.raw(), port, index.into(), &mut gid) };
        check(
            || format!("querying GID {index} of port {port} of {}", self.name),
            code,
        )?;
        // SAFETY: every bit pattern is an array of bytes.
        Ok(unsafe { gid.raw })
    }
}

/// The bit of a partition key that marks a full member.
const FULL: u16 = 1 << 15;

/// A partition of a port; the default is an unknown one at index 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Partition {
    /// Its index in the port's table.
    pub(crate) place: u16,
    /// Its key, with the bit of full membership; 0: unknown.
    pub(crate) key: u16,
}

impl Partition {
    pub(crate) fn is_limited(self) -> bool {
        self.key != 0 && self.key & FULL == 0
    }

    /// Whether both keys are of one partition, with any membership.
    pub(crate) fn is_that_of(self, key: u16) -> bool {
        self.key & !FULL == key & !FULL
    }
}

fn first_place(table: impl Iterator<Item = u16>) -> Option<Partition> {
    let mut limited = None;
    for (place, key) in (0..).zip(table) {
        let partition = Partition { place, key };
        match (key & !FULL != 0, key & FULL != 0) {
            (false, _) => {}
            (true, true) => return Some(partition),
            (true, false) => limited = limited.or(Some(partition)),
        }
    }
    limited
}

fn place_of(key: u16, table: &[u16]) -> Option<Partition> {
    let same = |entry: &u16| entry & !FULL == key & !FULL && entry & !FULL != 0;
    let full = table
        .iter()
        .position(|entry| same(entry) && entry & FULL != 0);
    let place = full.or_else(|| table.iter().position(same))?;
    Some(Partition {
        place: u16::try_from(place).ok()?,
        key: table[place],
    })
}

/// The keys of a table, without empty entries, as text.
fn written(table: &[u16]) -> String {
    let keys: Vec<_> = table.iter().filter(|&&key| key != 0).collect();
    match keys.is_empty() {
        true => "none".to_owned(),
        false => {
            let keys: Vec<_> = keys.iter().map(|key| format!("{key:#06x}")).collect();
            keys.join(", ")
        }
    }
}

/// Keeps registered memory with this process when it forks. Otherwise, the first write after a fork would leave the
/// device with the child's copy. Since Linux 5.12, the kernel ensures this, so it is asked first. `ibv_fork_init` does
/// not ask: it removes registered pages from all children, with everything else on them. Called before all
/// registrations.
fn expect_forks() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        if kernel_copies_on_fork() {
            return;
        }
        // SAFETY: takes nothing; this is the only place from which devices are opened.
        let code = unsafe { ffi::ibv_fork_init() };
        if code != 0 {
            let error = std::io::Error::from_raw_os_error(code);
            tracing::warn!(%error, "a fork may part RDMA devices from registered memory");
        }
    });
}

/// Whether libibverbs says that forks need no protection. It has this function since version 35, and is asked for it at
/// run time, so that programs also start with older ones. These do not know.
fn kernel_copies_on_fork() -> bool {
    type Ask = unsafe extern "C" fn() -> ffi::ibv_fork_status;
    // SAFETY: a string that ends with a zero.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"ibv_is_fork_initialized".as_ptr()) };
    if found.is_null() {
        return false;
    }
    // SAFETY: libibverbs alone defines this name, as a function of this type.
    let ask = unsafe { std::mem::transmute::<*mut libc::c_void, Ask>(found) };
    // SAFETY: takes nothing.
    unsafe { ask() == ffi::IBV_FORK_UNNEEDED }
}

#[cfg(test)]
mod tests {
    use super::{Partition, first_place, place_of, written};

    #[test]
    fn the_first_partition_is_one_of_which_the_port_is_a_full_member() {
        for (table, place) in [
            (&[0xffff, 0x8001][..], Some(0)),
            (&[0x7fff, 0, 0x8001, 0xffff], Some(2)),
            (&[0, 0x8000, 0x7fff, 0x0001], Some(2)),
            (&[0, 0], None),
            (&[], None),
        ] {
            let first = first_place(table.iter().copied());
            let wanted = place.map(|place: u16| Partition {
                place,
                key: table[usize::from(place)],
            });
            assert_eq!(first, wanted, "{table:x?}");
        }
        assert!(!Partition::default().is_limited());
        assert!(!first_place([0xffff].into_iter()).unwrap().is_limited());
        assert!(first_place([0x7fff].into_iter()).unwrap().is_limited());
    }

    /// What is linked has to be in version 1.1 of the library's interface, which each release has.
    #[test]
    fn old_libraries_have_all_that_is_linked() {
        let program = std::fs::read("/proc/self/exe").unwrap();
        // Not as one string, which would be in the program itself.
        let mark = ["IBVERBS", "1."].join("_");
        let after = program.windows(mark.len() + 2);
        let found = after.filter(|bytes| bytes.starts_with(mark.as_bytes()));
        let mut versions: Vec<_> = found.map(|bytes| &bytes[mark.len()..]).collect();
        versions.sort_unstable();
        versions.dedup();
        assert!(!versions.is_empty());
        let is_first = |version: &&[u8]| version[0] == b'1' && !version[1].is_ascii_digit();
        assert!(versions.iter().all(is_first), "{versions:?}");
    }

    #[test]
    fn a_partition_is_found_whether_a_member_is_full_or_limited() {
        let table = [0xffff, 0, 0x0001, 0x8002, 0x0002];
        for (key, place) in [
            (0xffff, Some(0)),
            (0x7fff, Some(0)),
            (0x8001, Some(2)),
            (0x0001, Some(2)),
            (0x0002, Some(3)),
            (0x8003, None),
            (0x8000, None),
        ] {
            let found = place_of(key, &table);
            assert_eq!(found.map(|found| found.place), place, "{key:#06x}");
            assert!(found.is_none_or(|found| found.is_that_of(key)));
        }
        assert_eq!(written(&table[..4]), "0xffff, 0x0001, 0x8002");
        assert_eq!(written(&[0, 0]), "none");
    }
}
