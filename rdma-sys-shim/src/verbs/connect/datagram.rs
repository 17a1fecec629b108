//! The queue pair that messages travel over.

use std::collections::HashMap;
use std::ffi::CStr;
use std::io;
use std::os::fd::RawFd;
use std::sync::Arc;

use ibverbs_sys as ffi;
use memmap2::{MmapMut, MmapRaw};

use super::address::Address;
use super::message::MESSAGE_BYTES;
use crate::verbs::adapter::Adapter;
use crate::verbs::objects::{
    CompletionChannel, CompletionQueue, Handle, MemoryRegion, ProtectionDomain, QueueLimits,
    QueuePair,
};
use crate::verbs::port::{OwnPort, PortAddress};
use crate::{Error, Result};

/// Messages that may arrive before the thread looks, which may be making a queue pair; what comes
/// beyond is lost, and said again.
const RECEIVES: u32 = 128;
const SENDS: u32 = 32;

/// Completions that are taken at once.
const POLLED: usize = 16;

/// The device puts a packet's global header, or a gap, before its content.
const HEADER_BYTES: usize = 40;
/// The parts of the buffer: first those that are received into, then those sent from. A multiple
/// of a cache line.
const SLOT_BYTES: usize = (HEADER_BYTES + MESSAGE_BYTES).next_multiple_of(64);
const BUFFER_BYTES: usize = (RECEIVES + SENDS) as usize * SLOT_BYTES;

pub(crate) struct Datagrams {
    // The device uses the fields below it, so it goes first.
    pair: QueuePair,
    ways: HashMap<PortAddress, Handle<ffi::ibv_ah>>,
    queue: Arc<CompletionQueue>,
    channel: Arc<CompletionChannel>,
    region: MemoryRegion,
    buffer: MmapRaw,
    domain: Arc<ProtectionDomain>,
    /// Sending slots that the device does not use.
    free: Vec<u32>,
    /// How often the queue pair was started: completions of earlier lives do not count.
    life: u32,
    /// A completion failed, and with it the queue pair.
    broken: bool,
    own: OwnPort,
    qkey: u32,
}

impl Datagrams {
    /// Opens a queue pair for `own`, whose number it fills in.
    ///
    /// # Errors
    /// The device refuses, or its port takes no message as long as those here.
    pub(crate) fn open(adapter: &Adapter, own: &mut Address) -> Result<Self> {
        let Adapter {
            context, domain, ..
        } = adapter;
        let mtu = 128_usize << adapter.port.mtu;
        if mtu < MESSAGE_BYTES {
            let call = format!(
                "connecting over port {} of {}, whose MTU is {mtu} and has to be {MESSAGE_BYTES} \
                 at least",
                adapter.port.number,
                context.name(),
            );
            return Err(Error::os(
                call,
                io::Error::from_raw_os_error(libc::EMSGSIZE),
            ));
        }
        let channel = CompletionChannel::new(context)?;
        let queue = CompletionQueue::new(context, RECEIVES + SENDS, Some(&channel))?;
        let limits = QueueLimits {
            send: SENDS,
            receive: RECEIVES,
            inline: 0,
            elements: 1,
        };
        let pair = QueuePair::new(domain, &queue, ffi::ibv_qp_type::IBV_QPT_UD, limits)?;
        let buffer = MmapMut::map_anon(BUFFER_BYTES)
            .map(MmapRaw::from)
            .map_err(|error| Error::os(format!("mmap({BUFFER_BYTES})"), error))?;
        // SAFETY: the mapping moves into the result beside the region and outlives it; the device
        // writes to slots of posted receive requests only, which nobody reads meanwhile.
        let region = unsafe {
            let write = ffi::ibv_access_flags::IBV_ACCESS_LOCAL_WRITE;
            MemoryRegion::register(domain, buffer.as_mut_ptr(), BUFFER_BYTES, write)?
        };
        own.qpn = pair.number();
        let mut datagrams = Self {
            pair,
            ways: HashMap::new(),
            queue,
            channel,
            region,
            buffer,
            domain: domain.clone(),
            free: Vec::new(),
            life: 0,
            broken: false,
            own: adapter.own,
            qkey: own.qkey,
        };
        datagrams.start()?;
        Ok(datagrams)
    }

    /// From nothing, or from the state RESET.
    fn start(&mut self) -> Result<()> {
        self.life = self.life.wrapping_add(1);
        let OwnPort {
            number, partition, ..
        } = self.own;
        self.pair.start_datagrams(number, partition, self.qkey)?;
        for slot in 0..RECEIVES {
            self.post_receive(slot)?;
        }
        self.free = (RECEIVES..RECEIVES + SENDS).collect();
        self.broken = false;
        Ok(())
    }

    /// Starts again, under the same number, after a failure: a port that is down fails what is
    /// sent over it, and with it everything that was posted.
    pub(crate) fn restart(&mut self) -> Result<()> {
        self.pair.reset()?;
        self.ways.clear();
        // Room for those of the new life; what is there belongs to earlier ones.
        self.life = self.life.wrapping_add(1);
        while self.poll(|_| {})? > 0 {}
        self.start()
    }

    /// Whether it has to be started again.
    pub(crate) fn is_broken(&self) -> bool {
        self.broken
    }

    /// Counts it as broken.
    pub(crate) fn give_up(&mut self) {
        self.broken = true;
    }

    /// Readable when there was something to poll since it was armed.
    pub(crate) fn fd(&self) -> RawFd {
        self.channel.fd()
    }

    /// Asks for the descriptor to become readable at the next completion. What came before has to
    /// be polled afterwards.
    pub(crate) fn arm(&self) -> Result<()> {
        self.channel.take_events();
        self.queue.arm()
    }

    /// Whether there is room for one more to send; a completion makes some.
    pub(crate) fn can_send(&self) -> bool {
        !self.broken && !self.free.is_empty()
    }

    /// Sends a message, if there is room. It may be lost.
    pub(crate) fn send(&mut self, to: &Address, message: &[u8]) -> Result<()> {
        debug_assert!(message.len() <= MESSAGE_BYTES);
        let handle = self.way(to)?;
        let Some(slot) = self.free.pop() else {
            return Ok(());
        };
        // SAFETY: the slot has room, and is not in use.
        unsafe {
            self.slot(slot)
                .copy_from_nonoverlapping(message.as_ptr(), message.len())
        };
        let mut element = self.element(slot, message.len());
        let mut request = ffi::ibv_send_wr {
            wr_id: self.id(slot),
            sg_list: &raw mut element,
            num_sge: 1,
            opcode: ffi::ibv_wr_opcode::IBV_WR_SEND,
            send_flags: ffi::ibv_send_flags::IBV_SEND_SIGNALED.0,
            ..ffi::ibv_send_wr::default()
        };
        request.wr.ud = ffi::ibv_send_wr__bindgen_ty_2__bindgen_ty_3 {
            ah: handle,
            remote_qpn: to.qpn,
            remote_qkey: to.qkey,
        };
        // SAFETY: one request, whose slot nobody touches until it is complete; the handle lives as
        // long as the queue pair.
        let posted = unsafe { self.pair.post_send(&raw mut request) };
        if posted.is_err() {
            self.free.push(slot);
        }
        posted
    }

    /// Takes what has completed: gives messages to `received`, and says how many completions there
    /// were.
    pub(crate) fn poll(&mut self, mut received: impl FnMut(&[u8])) -> Result<usize> {
        let mut entries = [ffi::ibv_wc::default(); POLLED];
        let found = self.queue.poll(&mut entries)?;
        for entry in &entries[..found] {
            let slot = entry.wr_id() as u32;
            if entry.wr_id() != self.id(slot) {
                continue;
            }
            if let Some((status, _)) = entry.error() {
                self.fail(status);
                continue;
            }
            if slot >= RECEIVES {
                self.free.push(slot);
                continue;
            }
            let len = entry.len().clamp(HEADER_BYTES, SLOT_BYTES) - HEADER_BYTES;
            // SAFETY: inside the slot, which the device has filled and does not touch until it is
            // posted again, below.
            let message = unsafe {
                std::slice::from_raw_parts(self.slot(slot).wrapping_add(HEADER_BYTES), len)
            };
            received(message);
            self.post_receive(slot)?;
        }
        Ok(found)
    }

    fn fail(&mut self, status: ffi::ibv_wc_status::Type) {
        if !std::mem::replace(&mut self.broken, true) {
            // SAFETY: a string of the library's, for every status.
            let status = unsafe { CStr::from_ptr(ffi::ibv_wc_status_str(status)) };
            tracing::warn!(?status, "the queue pair for connection requests failed");
        }
    }

    fn post_receive(&self, slot: u32) -> Result<()> {
        let mut element = self.element(slot, HEADER_BYTES + MESSAGE_BYTES);
        let mut request = ffi::ibv_recv_wr {
            wr_id: self.id(slot),
            next: std::ptr::null_mut(),
            sg_list: &raw mut element,
            num_sge: 1,
        };
        // SAFETY: one request, whose slot nobody touches until it is complete.
        unsafe { self.pair.post_receive(&raw mut request) }
    }

    fn id(&self, slot: u32) -> u64 {
        u64::from(self.life) << 32 | u64::from(slot)
    }

    fn slot(&self, slot: u32) -> *mut u8 {
        self.buffer
            .as_mut_ptr()
            .wrapping_add(slot as usize * SLOT_BYTES)
    }

    fn element(&self, slot: u32, len: usize) -> ffi::ibv_sge {
        ffi::ibv_sge {
            addr: self.slot(slot) as u64,
            length: len as u32,
            lkey: self.region.lkey(),
        }
    }

    /// The way to a process. Those on one port share it.
    fn way(&mut self, to: &Address) -> Result<*mut ffi::ibv_ah> {
        if let Some(handle) = self.ways.get(&to.port) {
            return Ok(handle.raw());
        }
        let route = to.route_from(&self.own)?;
        let mut attributes = route.attributes();
        // SAFETY: a live domain, which is kept alive beside the handle, and attributes that are all filled. Only the handle
        // destroys it.
        let handle = unsafe {
            let made = ffi::ibv_create_ah(self.domain.raw(), &raw mut attributes);
            Handle::new(made, ffi::ibv_destroy_ah)
        };
        let handle = handle.ok_or_else(|| {
            let gid = std::net::Ipv6Addr::from(route.gid);
            Error::last_os(format!("finding the way to GID {gid}, LID {}", route.lid))
        })?;
        let raw = handle.raw();
        self.ways.insert(to.port, handle);
        Ok(raw)
    }
}
