//! The functions of libibverbs that programs call, under their names there.
//!
//! The library is loaded in front of libibverbs (`LD_PRELOAD`), so it needs neither its versions of symbols nor those
//! functions that only deal with text or numbers. Functions that would pass an object of this library to a driver are
//! all here: those that are not supported say so.

// The contract of each of these functions is that of libibverbs' manual page.
#![allow(clippy::missing_safety_doc)]

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::mem::offset_of;
use std::ptr;
use std::slice;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use crate::abi::*;
use crate::completion::{Channel, CompletionQueue, lock};
use crate::context::Context;
use crate::engine;
use crate::error::{Errno, Result};
use crate::fabric::{CONTEXTS, Fabric, PAIRS, REGIONS};
use crate::failure::Call;
use crate::locked::{Locked, page_size};
use crate::misuse;
use crate::personality::{Atomics, Link};
use crate::queue_memory;
use crate::queue_pair::QueuePair;
use crate::region;
use crate::request::Request;
use crate::settings::Settings;
use crate::sysfs;

/// The most entries of a completion queue (`log_max_cq_sz` of mlx5 is 22).
const COMPLETIONS: c_int = (1 << 22) - 1;

// --- Objects: what programs see, and what is behind it.

/// An open device. Programs get the address of the context in it.
#[repr(C)]
struct DeviceObject {
    verbs: verbs_context,
    inner: Arc<Context>,
}

#[repr(C)]
struct DomainObject {
    verbs: ibv_pd,
    inner: Arc<Context>,
    number: u32,
    users: AtomicUsize,
}

#[repr(C)]
struct RegionObject {
    verbs: ibv_mr,
    inner: Arc<Context>,
    _memory: Locked,
}

#[repr(C)]
struct ChannelObject {
    verbs: ibv_comp_channel,
    inner: Arc<Channel>,
    users: AtomicUsize,
}

#[repr(C)]
struct QueueObject {
    verbs: ibv_cq,
    inner: Arc<CompletionQueue>,
    context: Arc<Context>,
    users: AtomicUsize,
    _memory: Locked,
}

#[repr(C)]
struct PairObject {
    verbs: ibv_qp,
    inner: Arc<QueuePair>,
    context: Arc<Context>,
    _memory: Locked,
}

fn context_of<'a>(context: *mut ibv_context) -> &'a Arc<Context> {
    let before = offset_of!(DeviceObject, verbs) + offset_of!(verbs_context, context);
    // SAFETY: programs only have contexts that `ibv_open_device` has made, as members of this structure, and use none
    // after closing it.
    unsafe { &(*context.byte_sub(before).cast::<DeviceObject>()).inner }
}

macro_rules! objects {
    ($($function:ident $verbs:ident $object:ident)*) => {
        $(
            fn $function<'a>(object: *mut $verbs) -> &'a $object {
                // SAFETY: programs only have objects that this library has made, each as the first member of this
                // structure, and use none after destroying it.
                unsafe { &*object.cast::<$object>() }
            }
        )*
    };
}

objects! {
    domain_of ibv_pd DomainObject
    channel_of ibv_comp_channel ChannelObject
    queue_of ibv_cq QueueObject
    pair_of ibv_qp PairObject
}

/// Passes an object to the program, as the address of its first member.
fn make<T, V>(object: T) -> *mut V {
    Box::into_raw(Box::new(object)).cast()
}

/// Takes an object back from the program.
fn unmake<T, V>(object: *mut V) -> Box<T> {
    // SAFETY: `make` has made it, as the callers' types say, and the program does not use it any more.
    unsafe { Box::from_raw(object.cast()) }
}

/// A null pointer, and the error in `errno`.
fn or_null<T>(made: Result<*mut T>) -> *mut T {
    made.unwrap_or_else(|error| {
        set_errno(error);
        ptr::null_mut()
    })
}

/// Zero, or the error.
fn code(done: Result<()>) -> c_int {
    done.map_or_else(|error| error.0, |()| 0)
}

fn set_errno(error: Errno) {
    // SAFETY: the thread's own variable.
    unsafe { *libc::__errno_location() = error.0 };
}

// --- Devices.

/// What the environment says, read once.
struct Library {
    fabric: Arc<Fabric>,
    settings: Arc<Settings>,
    /// Addresses of devices, which last as long as the process.
    devices: Vec<usize>,
}

fn library() -> Option<&'static Library> {
    static LIBRARY: OnceLock<Option<Library>> = OnceLock::new();
    let library = LIBRARY.get_or_init(|| {
        load().unwrap_or_else(|words| {
            eprintln!("soft-hca: {words}");
            None
        })
    });
    library.as_ref()
}

fn load() -> std::result::Result<Option<Library>, String> {
    let Some(settings) = Settings::from_env()? else {
        return Ok(None);
    };
    let path = sysfs::fabric(&settings.root);
    let fabric = Fabric::open(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let class = sysfs::class(&settings.root, settings.host);
    let device = |(at, name): (usize, String)| {
        let device = ibv_device {
            ops: [0; 2],
            node_type: NODE_CA,
            transport_type: TRANSPORT_IB,
            name: text(&name),
            dev_name: text(&format!("uverbs{at}")),
            dev_path: text(&class.join(&name).to_string_lossy()),
            ibdev_path: text(&class.join(&name).to_string_lossy()),
        };
        Box::into_raw(Box::new(device)).expose_provenance()
    };
    let devices = settings.names().into_iter().enumerate().map(device);
    Ok(Some(Library {
        fabric: Arc::new(fabric),
        devices: devices.collect(),
        settings: Arc::new(settings),
    }))
}

/// A text of at most so many characters and the zero behind them.
fn text<const N: usize>(text: &str) -> [c_char; N] {
    let mut all = [0; N];
    for (to, byte) in all[..N - 1].iter_mut().zip(text.bytes()) {
        *to = byte as c_char;
    }
    all
}

/// The number of a device of this library.
fn number_of(device: *mut ibv_device) -> Option<usize> {
    let devices = &library()?.devices;
    devices.iter().position(|&known| known == device.addr())
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_get_device_list(count: *mut c_int) -> *mut *mut ibv_device {
    let devices = library().map_or(&[][..], |library| &library.devices);
    let pointer = |&device: &usize| ptr::with_exposed_provenance_mut::<ibv_device>(device);
    let list: Vec<_> = devices
        .iter()
        .map(pointer)
        .chain([ptr::null_mut()])
        .collect();
    if !count.is_null() {
        // SAFETY: a place for the answer.
        unsafe { *count = devices.len() as c_int };
    }
    Box::into_raw(list.into_boxed_slice()).cast()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_free_device_list(list: *mut *mut ibv_device) {
    if list.is_null() {
        return;
    }
    let len = library().map_or(0, |library| library.devices.len()) + 1;
    // SAFETY: a list of `ibv_get_device_list`, which all have this length.
    drop(unsafe { Box::from_raw(ptr::slice_from_raw_parts_mut(list, len)) });
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_get_device_name(device: *mut ibv_device) -> *const c_char {
    // SAFETY: a device of this library, which lasts.
    unsafe { (&raw const (*device).name).cast() }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_get_device_guid(device: *mut ibv_device) -> u64 {
    let guid = |at| Some(library()?.settings.identity(at).guid().to_be());
    number_of(device).and_then(guid).unwrap_or(0)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_get_device_index(device: *mut ibv_device) -> c_int {
    number_of(device).map_or(-1, |at| at as c_int)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_open_device(device: *mut ibv_device) -> *mut ibv_context {
    or_null(open_device(device))
}

fn open_device(device: *mut ibv_device) -> Result<*mut ibv_context> {
    let library = library().ok_or(Errno(libc::ENODEV))?;
    let at = number_of(device).ok_or(Errno(libc::ENODEV))?;
    library.settings.failures.of_call(Call::OpenDevice)?;
    let opened = Context::open(library.fabric.clone(), library.settings.clone(), at);
    let inner = opened.map_err(|error| Errno(error.raw_os_error().unwrap_or(libc::EIO)))?;
    let context = ibv_context {
        device,
        ops: ibv_context_ops {
            before: [0; 11],
            poll_cq: Some(poll_cq),
            req_notify_cq: Some(req_notify_cq),
            between: [0; 12],
            post_send: Some(post_send),
            post_recv: Some(post_recv),
            after: [0; 5],
        },
        cmd_fd: -1,
        async_fd: inner.events().descriptor(),
        num_comp_vectors: 1,
        mutex: [0; 5],
        abi_compat: IS_EXTENDED,
    };
    let object = Box::into_raw(Box::new(DeviceObject {
        verbs: verbs_context {
            query_port: Some(query_port),
            before: [0; 25],
            private: 0,
            query_device_ex: Some(query_device_ex),
            between: [0; 10],
            placeholder: 0,
            size: size_of::<verbs_context>(),
            context,
        },
        inner,
    }));
    // SAFETY: the new object.
    Ok(unsafe { &raw mut (*object).verbs.context })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_close_device(context: *mut ibv_context) -> c_int {
    context_of(context).close();
    let before = offset_of!(DeviceObject, verbs) + offset_of!(verbs_context, context);
    // SAFETY: the object that `ibv_open_device` has made around this context.
    let object = unsafe { context.byte_sub(before) };
    drop(unmake::<DeviceObject, _>(object));
    0
}

fn attributes(context: &Context) -> ibv_device_attr {
    let personality = context.personality();
    let guid = context.identity().guid().to_be();
    ibv_device_attr {
        fw_ver: text(sysfs::FIRMWARE),
        node_guid: guid,
        sys_image_guid: guid,
        max_mr_size: u64::MAX,
        page_size_cap: 0xffff_f000,
        vendor_id: personality.vendor,
        // No product: with those that it knows, perftest posts by `ibv_create_qp_ex`, which is not here.
        vendor_part_id: 0,
        hw_ver: 0,
        max_qp: PAIRS as c_int - 1,
        max_qp_wr: personality.send_queue as c_int,
        device_cap_flags: 0,
        max_sge: personality.pieces as c_int,
        max_sge_rd: personality.read_pieces as c_int,
        max_cq: 1 << 16,
        max_cqe: COMPLETIONS,
        max_mr: REGIONS as c_int - 1,
        max_pd: CONTEXTS as c_int,
        max_qp_rd_atom: personality.reads_in.into(),
        max_ee_rd_atom: 0,
        max_res_rd_atom: c_int::from(personality.reads_in) * PAIRS as c_int,
        max_qp_init_rd_atom: personality.reads_out.into(),
        max_ee_init_rd_atom: 0,
        atomic_cap: match personality.atomics {
            Atomics::None => 0,
            Atomics::Device => 1,
            Atomics::Claimed => 2,
        },
        unused: [0; 14],
        max_pkeys: 1,
        local_ca_ack_delay: 16,
        phys_port_cnt: 1,
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_query_device(
    context: *mut ibv_context,
    answer: *mut ibv_device_attr,
) -> c_int {
    // SAFETY: a place for the answer.
    unsafe { *answer = attributes(context_of(context)) };
    0
}

unsafe extern "C" fn query_device_ex(
    context: *mut ibv_context,
    _input: *const c_void,
    answer: *mut ibv_device_attr_ex,
    len: usize,
) -> c_int {
    let all = ibv_device_attr_ex {
        orig_attr: attributes(context_of(context)),
        unused: [0; 19],
        pci_fetch_add: 0,
        pci_swap: 0,
        pci_compare_swap: 0,
        xrc_odp_caps: 0,
        phys_port_cnt_ex: 1,
    };
    // SAFETY: a place of `len` bytes for the answer, of which older programs know less.
    unsafe { copy_part(&all, answer.cast(), len) };
    0
}

/// Copies as much of an answer as the program has room for.
///
/// # Safety
/// `to` has `len` bytes.
unsafe fn copy_part<T>(all: &T, to: *mut u8, len: usize) {
    // SAFETY: the program's bytes, as the caller promises; those of `all` are integers without padding between those
    // that the program reads.
    unsafe {
        ptr::write_bytes(to, 0, len);
        ptr::copy_nonoverlapping((&raw const *all).cast(), to, len.min(size_of::<T>()));
    }
}

fn port(context: &Context, number: u8) -> Result<ibv_port_attr> {
    if number != 1 {
        return Err(Errno::INVALID);
    }
    if context.is_gone() {
        return Err(Errno(libc::EIO));
    }
    let is_down = context.port_is_down(context.adapter());
    let identity = context.identity();
    Ok(ibv_port_attr {
        state: if is_down { PORT_DOWN } else { PORT_ACTIVE },
        max_mtu: MTU_4096,
        active_mtu: MTU_4096,
        gid_tbl_len: identity.gids().len() as c_int,
        port_cap_flags: 0,
        max_msg_sz: context.personality().max_message,
        bad_pkey_cntr: 0,
        qkey_viol_cntr: 0,
        pkey_tbl_len: 1,
        lid: identity.lid(),
        sm_lid: identity.subnet_manager(),
        lmc: 0,
        max_vl_num: 1,
        sm_sl: 0,
        subnet_timeout: 18,
        init_type_reply: 0,
        // 4X of EDR: 100 Gb/s.
        active_width: 2,
        active_speed: 32,
        // Link up, or disabled.
        phys_state: if is_down { 3 } else { 5 },
        link_layer: match context.link() {
            Link::InfiniBand => LINK_INFINIBAND,
            Link::Ethernet => LINK_ETHERNET,
        },
        flags: 0,
        port_cap_flags2: 0,
    })
}

/// `IBV_MTU_4096`
const MTU_4096: c_int = 5;

unsafe extern "C" fn query_port(
    context: *mut ibv_context,
    number: u8,
    answer: *mut ibv_port_attr,
    len: usize,
) -> c_int {
    // SAFETY: a place of `len` bytes for the answer.
    let give = |port| unsafe { copy_part(&port, answer.cast(), len) };
    code(port(context_of(context), number).map(give))
}

/// Old programs have room for what was there before `port_cap_flags2`.
#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_query_port(
    context: *mut ibv_context,
    number: u8,
    answer: *mut ibv_port_attr,
) -> c_int {
    let len = offset_of!(ibv_port_attr, port_cap_flags2);
    // SAFETY: a place of at least this length.
    unsafe { query_port(context, number, answer, len) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_query_gid(
    context: *mut ibv_context,
    port: u8,
    index: c_int,
    gid: *mut ibv_gid,
) -> c_int {
    let Some(entry) = gid_entry(context_of(context), port.into(), index as u32) else {
        set_errno(Errno::INVALID);
        return -1;
    };
    // SAFETY: a place for the answer.
    unsafe { *gid = entry.gid };
    0
}

fn gid_entry(context: &Context, port: u32, index: u32) -> Option<ibv_gid_entry> {
    let gids = context.identity().gids();
    let gid = *gids.get(index as usize).filter(|_| port == 1)?;
    Some(ibv_gid_entry {
        gid,
        gid_index: index,
        port_num: port,
        gid_type: match context.link() {
            Link::InfiniBand => 0,
            Link::Ethernet => 2,
        },
        ndev_ifindex: 0,
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn _ibv_query_gid_ex(
    context: *mut ibv_context,
    port: u32,
    index: u32,
    entry: *mut ibv_gid_entry,
    _flags: u32,
    len: usize,
) -> c_int {
    let Some(found) = gid_entry(context_of(context), port, index) else {
        return libc::ENODATA;
    };
    // SAFETY: a place of `len` bytes for the answer.
    unsafe { copy_part(&found, entry.cast(), len) };
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn _ibv_query_gid_table(
    context: *mut ibv_context,
    entries: *mut ibv_gid_entry,
    room: usize,
    _flags: u32,
    len: usize,
) -> isize {
    let context = context_of(context);
    let all: Vec<_> = (0..)
        .map_while(|index| gid_entry(context, 1, index))
        .collect();
    if room < all.len() {
        return -(libc::EINVAL as isize);
    }
    for (at, entry) in all.iter().enumerate() {
        // SAFETY: there is room for so many entries of `len` bytes.
        unsafe { copy_part(entry, entries.byte_add(at * len).cast(), len) };
    }
    all.len() as isize
}

/// Whether a GID is of RoCE v2; a private function of libibverbs, for its tools.
#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_query_gid_type(
    context: *mut ibv_context,
    port: u8,
    index: c_uint,
    kind: *mut c_int,
) -> c_int {
    if gid_entry(context_of(context), port.into(), index).is_none() {
        set_errno(Errno::INVALID);
        return -1;
    }
    let is_ethernet = context_of(context).link() == Link::Ethernet;
    // SAFETY: a place for the answer.
    unsafe { *kind = is_ethernet.into() };
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_query_pkey(
    _context: *mut ibv_context,
    port: u8,
    index: c_int,
    key: *mut u16,
) -> c_int {
    if port != 1 || index != 0 {
        set_errno(Errno::INVALID);
        return -1;
    }
    // SAFETY: a place for the answer.
    unsafe { *key = 0xffff };
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_get_pkey_index(_context: *mut ibv_context, port: u8, key: u16) -> c_int {
    if port == 1 && key == 0xffff { 0 } else { -1 }
}

// --- Events of devices.

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_get_async_event(
    context: *mut ibv_context,
    event: *mut ibv_async_event,
) -> c_int {
    let Ok((kind, of)) = context_of(context).events().take() else {
        return -1;
    };
    let found = ibv_async_event {
        element: of as u64,
        event_type: kind as c_int,
    };
    // SAFETY: a place for the answer.
    unsafe { *event = found };
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_ack_async_event(_event: *mut ibv_async_event) {}

// --- Protection domains and regions.

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_alloc_pd(context: *mut ibv_context) -> *mut ibv_pd {
    let inner = context_of(context).clone();
    let make_one = |()| {
        make(DomainObject {
            verbs: ibv_pd { context, handle: 0 },
            number: inner.fabric().new_domain(),
            users: AtomicUsize::new(0),
            inner: inner.clone(),
        })
    };
    or_null(
        inner
            .settings()
            .failures
            .of_call(Call::AllocPd)
            .map(make_one),
    )
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_dealloc_pd(domain: *mut ibv_pd) -> c_int {
    if domain_of(domain).users.load(Ordering::Acquire) != 0 {
        return Errno::BUSY.0;
    }
    drop(unmake::<DomainObject, _>(domain));
    0
}

fn register(
    domain: *mut ibv_pd,
    addr: *mut c_void,
    length: usize,
    rights: c_uint,
) -> Result<*mut ibv_mr> {
    let of = domain_of(domain);
    for (flag, name) in [
        (access::ZERO_BASED, "IBV_ACCESS_ZERO_BASED"),
        (access::ON_DEMAND, "IBV_ACCESS_ON_DEMAND"),
    ] {
        if rights & flag != 0 {
            return Err(refuse(name, of.verbs.context));
        }
    }
    let address = addr.addr() as u64;
    let (_, pages) = region::pages(address, length as u64);
    let memory = Locked::take(of.inner.personality().locks, pages)?;
    let key = region::register(&of.inner, of.number, address, length as u64, rights)?;
    of.users.fetch_add(1, Ordering::AcqRel);
    of.inner.objects.fetch_add(1, Ordering::AcqRel);
    Ok(make(RegionObject {
        verbs: ibv_mr {
            context: of.verbs.context,
            pd: domain,
            addr,
            length,
            handle: key >> 8,
            lkey: key,
            rkey: key,
        },
        inner: of.inner.clone(),
        _memory: memory,
    }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_reg_mr(
    domain: *mut ibv_pd,
    addr: *mut c_void,
    length: usize,
    access: c_int,
) -> *mut ibv_mr {
    or_null(register(domain, addr, length, access as c_uint))
}

/// Other addresses than the memory's are not supported.
#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_reg_mr_iova2(
    domain: *mut ibv_pd,
    addr: *mut c_void,
    length: usize,
    iova: u64,
    access: c_uint,
) -> *mut ibv_mr {
    or_null(match iova == addr.addr() as u64 {
        true => register(domain, addr, length, access),
        false => Err(refuse(
            "a region with other addresses than its memory",
            domain_of(domain).verbs.context,
        )),
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_reg_mr_iova(
    domain: *mut ibv_pd,
    addr: *mut c_void,
    length: usize,
    iova: u64,
    access: c_int,
) -> *mut ibv_mr {
    // SAFETY: the same call.
    unsafe { ibv_reg_mr_iova2(domain, addr, length, iova, access as c_uint) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_dereg_mr(region: *mut ibv_mr) -> c_int {
    let object = unmake::<RegionObject, _>(region);
    region::deregister(&object.inner, region_key(&object));
    object.inner.objects.fetch_sub(1, Ordering::AcqRel);
    domain_of(object.verbs.pd)
        .users
        .fetch_sub(1, Ordering::AcqRel);
    0
}

fn region_key(object: &RegionObject) -> u32 {
    object.verbs.lkey
}

// --- Completion queues.

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_create_comp_channel(context: *mut ibv_context) -> *mut ibv_comp_channel {
    let made = Channel::new().map_err(|_| Errno::last());
    or_null(made.map(|channel| {
        make(ChannelObject {
            verbs: ibv_comp_channel {
                context,
                fd: channel.descriptor(),
                refcnt: 0,
            },
            inner: Arc::new(channel),
            users: AtomicUsize::new(0),
        })
    }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_destroy_comp_channel(channel: *mut ibv_comp_channel) -> c_int {
    if channel_of(channel).users.load(Ordering::Acquire) != 0 {
        return Errno::BUSY.0;
    }
    drop(unmake::<ChannelObject, _>(channel));
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_create_cq(
    context: *mut ibv_context,
    entries: c_int,
    tag: *mut c_void,
    channel: *mut ibv_comp_channel,
    vector: c_int,
) -> *mut ibv_cq {
    or_null(create_cq(context, entries, tag, channel, vector))
}

/// Locks the memory of a queue or a queue pair, which depends on the size of a page; none if it is not known how much.
fn lock_queue(context: &Context, bytes: impl FnOnce(u64) -> u64) -> Result<Locked> {
    let personality = context.personality();
    let known = personality.has_known_queues();
    Locked::take(
        personality.locks,
        if known { bytes(page_size()) } else { 0 },
    )
}

fn create_cq(
    context: *mut ibv_context,
    entries: c_int,
    tag: *mut c_void,
    channel: *mut ibv_comp_channel,
    vector: c_int,
) -> Result<*mut ibv_cq> {
    let inner = context_of(context);
    inner.settings().failures.of_call(Call::CreateCq)?;
    if !(1..=COMPLETIONS).contains(&entries) || vector != 0 {
        return Err(Errno::INVALID);
    }
    let memory = lock_queue(inner, |page| {
        queue_memory::of_completions(entries as u32, page)
    })?;
    // As mlx5: a power of two, of which one entry is not used.
    let capacity = (entries as u32 + 1).next_power_of_two() - 1;
    let told = (!channel.is_null()).then(|| {
        channel_of(channel).users.fetch_add(1, Ordering::AcqRel);
        channel_of(channel).inner.clone()
    });
    let queue = Arc::new(CompletionQueue::new(capacity as usize, told));
    inner.counters().queue_bytes.add(memory.bytes());
    inner.objects.fetch_add(1, Ordering::AcqRel);
    let object: *mut ibv_cq = make(QueueObject {
        verbs: ibv_cq {
            context,
            channel,
            cq_context: tag,
            handle: 0,
            cqe: capacity as c_int,
            mutex: [0; 5],
            cond: [0; 6],
            comp_events_completed: 0,
            async_events_completed: 0,
        },
        inner: queue.clone(),
        context: inner.clone(),
        users: AtomicUsize::new(0),
        _memory: memory,
    });
    queue.set_handle(object.expose_provenance());
    Ok(object)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_destroy_cq(queue: *mut ibv_cq) -> c_int {
    if queue_of(queue).users.load(Ordering::Acquire) != 0 {
        return Errno::BUSY.0;
    }
    let object = unmake::<QueueObject, _>(queue);
    object.inner.withdraw();
    object.context.objects.fetch_sub(1, Ordering::AcqRel);
    if !object.verbs.channel.is_null() {
        channel_of(object.verbs.channel)
            .users
            .fetch_sub(1, Ordering::AcqRel);
    }
    0
}

unsafe extern "C" fn poll_cq(queue: *mut ibv_cq, count: c_int, into: *mut ibv_wc) -> c_int {
    let Ok(count) = usize::try_from(count) else {
        return -libc::EINVAL;
    };
    // Then there need be no array.
    if count == 0 {
        return 0;
    }
    // SAFETY: room for as many completions, which the program does not read meanwhile.
    let into = unsafe { slice::from_raw_parts_mut(into, count) };
    let object = queue_of(queue);
    let (queue, context) = (&object.inner, &object.context);
    let until = match queue.has_channel() {
        true => u64::MAX,
        false => context.model().visible_until(),
    };
    let mut found = queue.poll(into, until);
    if found.0 == 0 {
        engine::help(context);
        found = queue.poll(into, until);
    }
    let (count, time) = found;
    context.model().polled(count, time);
    count as c_int
}

unsafe extern "C" fn req_notify_cq(queue: *mut ibv_cq, solicited_only: c_int) -> c_int {
    queue_of(queue).inner.arm(solicited_only != 0);
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_get_cq_event(
    channel: *mut ibv_comp_channel,
    queue: *mut *mut ibv_cq,
    tag: *mut *mut c_void,
) -> c_int {
    let Ok(handle) = channel_of(channel).inner.take() else {
        return -1;
    };
    let found: *mut ibv_cq = ptr::with_exposed_provenance_mut(handle.0);
    // SAFETY: places for the answers. What is told of is withdrawn when the queue is destroyed.
    unsafe {
        *queue = found;
        *tag = queue_of(found).verbs.cq_context;
    }
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_ack_cq_events(_queue: *mut ibv_cq, _count: c_uint) {}

// --- Queue pairs.

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_create_qp(
    domain: *mut ibv_pd,
    wanted: *mut ibv_qp_init_attr,
) -> *mut ibv_qp {
    // SAFETY: the program's attributes, which nobody else uses meanwhile.
    or_null(create_qp(domain, unsafe { &mut *wanted }))
}

fn create_qp(domain: *mut ibv_pd, wanted: &mut ibv_qp_init_attr) -> Result<*mut ibv_qp> {
    let of = domain_of(domain);
    if wanted.qp_type != QPT_RC {
        let what = format!(
            "a queue pair of type {} (only {QPT_RC}, RC, is)",
            wanted.qp_type
        );
        return Err(refuse(&what, of.verbs.context));
    }
    if !wanted.srq.is_null() {
        return Err(refuse("a shared receive queue", of.verbs.context));
    }
    if wanted.send_cq.is_null() || wanted.recv_cq.is_null() {
        return Err(Errno::INVALID);
    }
    let queues = [wanted.send_cq, wanted.recv_cq];
    let asked = wanted.cap;
    let memory = lock_queue(&of.inner, |page| queue_memory::of_pair(&asked, page))?;
    let pair = QueuePair::new(
        &of.inner,
        of.number,
        queues.map(|queue| queue_of(queue).inner.clone()),
        wanted.cap,
        wanted.sq_sig_all != 0,
    )?;
    of.inner.counters().queue_bytes.add(memory.bytes());
    wanted.cap = pair.limits;
    of.users.fetch_add(1, Ordering::AcqRel);
    for queue in queues {
        queue_of(queue).users.fetch_add(1, Ordering::AcqRel);
    }
    let object: *mut ibv_qp = make(PairObject {
        verbs: ibv_qp {
            context: of.verbs.context,
            qp_context: wanted.qp_context,
            pd: domain,
            send_cq: wanted.send_cq,
            recv_cq: wanted.recv_cq,
            srq: ptr::null_mut(),
            handle: 0,
            qp_num: pair.number,
            state: 0,
            qp_type: QPT_RC,
            mutex: [0; 5],
            cond: [0; 6],
            events_completed: 0,
        },
        inner: pair.clone(),
        context: of.inner.clone(),
        _memory: memory,
    });
    pair.handle
        .store(object.expose_provenance(), Ordering::Release);
    Ok(object)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_modify_qp(pair: *mut ibv_qp, to: *mut ibv_qp_attr, what: c_int) -> c_int {
    let object = pair_of(pair);
    // SAFETY: the program's attributes.
    let to = unsafe { &*to };
    if object.context.is_gone() {
        return libc::EIO;
    }
    let done = object.inner.modify(&object.context, to, what);
    if done.is_ok() && what & mask::STATE != 0 {
        // SAFETY: a live queue pair; programs do not call this from two threads at once.
        unsafe { (*pair).state = to.qp_state };
    }
    code(done)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_query_qp(
    pair: *mut ibv_qp,
    answer: *mut ibv_qp_attr,
    _what: c_int,
    made_with: *mut ibv_qp_init_attr,
) -> c_int {
    let object = pair_of(pair);
    let state = object.inner.entry(&object.context).state() as c_int;
    let mut known = lock(&object.inner.route).attributes;
    (known.qp_state, known.cur_qp_state) = (state, state);
    known.cap = object.inner.limits;
    let with = ibv_qp_init_attr {
        qp_context: object.verbs.qp_context,
        send_cq: object.verbs.send_cq,
        recv_cq: object.verbs.recv_cq,
        srq: ptr::null_mut(),
        cap: object.inner.limits,
        qp_type: QPT_RC,
        sq_sig_all: object.inner.signals_all.into(),
    };
    // SAFETY: places for the answers, and the state in a live queue pair, which libibverbs updates here.
    unsafe {
        *answer = known;
        *made_with = with;
        (*pair).state = state;
    }
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_destroy_qp(pair: *mut ibv_qp) -> c_int {
    let object = unmake::<PairObject, _>(pair);
    object.inner.destroy(&object.context);
    let own = pair.expose_provenance();
    // No event refers to it any more.
    object.context.events().keep(|(_, of)| *of != own);
    domain_of(object.verbs.pd)
        .users
        .fetch_sub(1, Ordering::AcqRel);
    for queue in [object.verbs.send_cq, object.verbs.recv_cq] {
        queue_of(queue).users.fetch_sub(1, Ordering::AcqRel);
    }
    0
}

/// The pieces of memory that a work request names.
///
/// # Safety
/// The list has as many members, unless there are none.
unsafe fn pieces<'a>(list: *const ibv_sge, count: c_int) -> Result<&'a [ibv_sge]> {
    match usize::try_from(count) {
        Ok(0) => Ok(&[]),
        // SAFETY: the caller's promise.
        Ok(count) => Ok(unsafe { slice::from_raw_parts(list, count) }),
        Err(_) => Err(Errno::INVALID),
    }
}

unsafe extern "C" fn post_send(
    pair: *mut ibv_qp,
    first: *mut ibv_send_wr,
    bad: *mut *mut ibv_send_wr,
) -> c_int {
    let object = pair_of(pair);
    let (context, queue_pair) = (&object.context, &object.inner);
    let mut next = first;
    let mut failed = None;
    while !next.is_null() {
        // SAFETY: a chain of requests of the program, each with its list of pieces.
        let posted = unsafe { request(&*next, object.verbs.context) };
        if let Err(error) = posted.and_then(|request| queue_pair.post_send(context, request)) {
            failed = Some(error);
            break;
        }
        // SAFETY: as above.
        next = unsafe { (*next).next };
    }
    if next != first {
        context.counters().doorbells.add(1);
        context.model().ring();
        context.list(queue_pair);
    }
    let Some(error) = failed else {
        return 0;
    };
    // SAFETY: a place for the request that was refused.
    unsafe { *bad = next };
    error.0
}

/// A work request in the form of this library.
///
/// # Safety
/// Its list of pieces is readable.
unsafe fn request(from: &ibv_send_wr, context: *mut ibv_context) -> Result<Request> {
    let Some(found) = Request::operation(from.opcode, from.wr) else {
        let what = format!("a work request of operation {}", from.opcode);
        return Err(refuse(&what, context));
    };
    let (operation, address, key) = found;
    // SAFETY: the caller's promise.
    let pieces = unsafe { pieces(from.sg_list, from.num_sge)? };
    let immediate = [opcode::RDMA_WRITE_WITH_IMM, opcode::SEND_WITH_IMM];
    Ok(Request {
        id: from.wr_id,
        operation,
        immediate: immediate.contains(&from.opcode).then_some(from.imm_data),
        flags: from.send_flags,
        pieces: pieces.to_vec(),
        inline: None,
        len: pieces.iter().map(|piece| u64::from(piece.length)).sum(),
        address,
        key,
        number: 0,
        modelled: 0,
        ended: None,
    })
}

unsafe extern "C" fn post_recv(
    pair: *mut ibv_qp,
    first: *mut ibv_recv_wr,
    bad: *mut *mut ibv_recv_wr,
) -> c_int {
    let object = pair_of(pair);
    let mut next = first;
    while !next.is_null() {
        // SAFETY: a chain of requests of the program, each with its list of pieces.
        let posted = unsafe {
            let request = &*next;
            pieces(request.sg_list, request.num_sge)
                .and_then(|pieces| object.inner.post_receive(&object.context, request, pieces))
        };
        if let Err(error) = posted {
            // SAFETY: a place for the request that was refused.
            unsafe { *bad = next };
            return error.0;
        }
        // SAFETY: as above.
        next = unsafe { (*next).next };
    }
    // In the error state, they are to be flushed.
    object.context.list(&object.inner);
    0
}

// --- Forks: nothing is pinned, so children need no care.

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_fork_init() -> c_int {
    0
}

/// `IBV_FORK_UNNEEDED`
#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_is_fork_initialized() -> c_int {
    2
}

// --- What is not supported.

/// Tells that something is not supported. Returns the error for it.
fn refuse(what: &str, context: *mut ibv_context) -> Errno {
    misuse::tell(context_of(context), format_args!("{what} is not supported"));
    Errno::NOT_SUPPORTED
}

macro_rules! unsupported {
    ($($function:ident($object:ident: $kind:ty) by $context:expr;)*) => {
        $(
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $function($object: *mut $kind) -> *mut c_void {
                or_null(Err(refuse(stringify!($function), $context)))
            }
        )*
    };
}

// All of these return pointers; other parameters follow, which are not looked at.
unsupported! {
    ibv_create_srq(domain: ibv_pd) by domain_of(domain).verbs.context;
    ibv_create_ah(domain: ibv_pd) by domain_of(domain).verbs.context;
    ibv_create_ah_from_wc(domain: ibv_pd) by domain_of(domain).verbs.context;
    ibv_reg_dmabuf_mr(domain: ibv_pd) by domain_of(domain).verbs.context;
    ibv_import_pd(context: ibv_context) by context;
    ibv_import_dm(context: ibv_context) by context;
    ibv_import_mr(domain: ibv_pd) by domain_of(domain).verbs.context;
}

/// There is no other interface to a queue pair.
#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_qp_to_qp_ex(_pair: *mut ibv_qp) -> *mut c_void {
    ptr::null_mut()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_resize_cq(queue: *mut ibv_cq, _entries: c_int) -> c_int {
    refuse("ibv_resize_cq", queue_of(queue).verbs.context).0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_rereg_mr(
    region: *mut ibv_mr,
    _flags: c_int,
    _domain: *mut ibv_pd,
    _addr: *mut c_void,
    _length: usize,
    _access: c_int,
) -> c_int {
    // SAFETY: a region of this library, which the program has not deregistered.
    let context = unsafe { (*region).context };
    set_errno(refuse("ibv_rereg_mr", context));
    // `IBV_REREG_MR_ERR_INPUT`: the region is as it was.
    -1
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_attach_mcast(pair: *mut ibv_qp, _gid: *const ibv_gid, _lid: u16) -> c_int {
    refuse("ibv_attach_mcast", pair_of(pair).verbs.context).0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_detach_mcast(pair: *mut ibv_qp, _gid: *const ibv_gid, _lid: u16) -> c_int {
    refuse("ibv_detach_mcast", pair_of(pair).verbs.context).0
}

/// Programs ask for enhanced connection establishment without need of it, so nothing is told.
#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_query_ece(_pair: *mut ibv_qp, _ece: *mut c_void) -> c_int {
    Errno::NOT_SUPPORTED.0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_set_ece(_pair: *mut ibv_qp, _ece: *mut c_void) -> c_int {
    Errno::NOT_SUPPORTED.0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_query_qp_data_in_order(
    _pair: *mut ibv_qp,
    _operation: c_int,
    _flags: u32,
) -> c_int {
    0
}
