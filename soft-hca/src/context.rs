//! An open device.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::abi::{Event, send_flag};
use crate::completion::{EventQueue, lock};
use crate::counters::Counters;
use crate::engine;
use crate::fabric::{ADAPTERS, ContextEntry, Fabric, PER_HOST};
use crate::identity::Identity;
use crate::misuse;
use crate::model::{Model, Times};
use crate::personality::{Link, Personality};
use crate::process;
use crate::queue_pair::QueuePair;
use crate::request::{Operation, Request};
use crate::settings::Settings;
use crate::sysfs;

/// An event, and the address of the program's object or the number of the port that it is about.
pub(crate) type Reported = (Event, usize);

pub(crate) struct Context {
    fabric: Arc<Fabric>,
    settings: Arc<Settings>,
    /// The adapter's number on its host.
    at: usize,
    /// The place of its entry in the fabric.
    place: usize,
    name: String,
    /// The process that opened it; a forked child has its memory, and not its thread.
    process: i32,
    pairs: Mutex<HashMap<u32, Arc<QueuePair>>>,
    /// Queue pairs for the thread to look at.
    listed: Mutex<VecDeque<Arc<QueuePair>>>,
    /// How often peers had called when that was last noted.
    heard: AtomicU32,
    /// The adapters for which writes were accepted here that come late, as bits.
    late: AtomicU32,
    /// Registered regions and completion queues, which a device that is closed must not have.
    pub(crate) objects: AtomicUsize,
    times: Times,
    events: EventQueue<Reported>,
    is_closed: AtomicBool,
    is_gone: AtomicBool,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Context {
    /// Opens an adapter of this host.
    pub(crate) fn open(
        fabric: Arc<Fabric>,
        settings: Arc<Settings>,
        at: usize,
    ) -> io::Result<Arc<Self>> {
        static PULSE: u8 = 1;
        process::admit_all();
        let names = settings.names();
        let (place, entry) = fabric
            .take_context()
            .ok_or_else(|| io::Error::from_raw_os_error(libc::ENOMEM))?;
        entry.counters.clear();
        entry.thread.store(0, Ordering::Relaxed);
        entry
            .adapter
            .store((settings.host * PER_HOST + at) as u32, Ordering::Relaxed);
        let pulse = (&raw const PULSE).expose_provenance() as u64;
        entry.pulse.store(pulse, Ordering::Release);
        let context = Arc::new(Self {
            times: Times::default(),
            events: EventQueue::new()?,
            name: names[at].clone(),
            process: process::own(),
            pairs: Mutex::default(),
            listed: Mutex::default(),
            heard: AtomicU32::new(entry.attention.load(Ordering::Relaxed)),
            late: AtomicU32::new(0),
            objects: AtomicUsize::new(0),
            is_closed: AtomicBool::new(false),
            is_gone: AtomicBool::new(false),
            thread: Mutex::default(),
            fabric,
            settings,
            at,
            place,
        });
        let own = context.clone();
        let thread = without_signals(|| {
            let thread = std::thread::Builder::new().name("soft-hca".to_owned());
            thread.spawn(move || engine::run(&own))
        })?;
        *lock(&context.thread) = Some(thread);
        // From here on, peers find its memory.
        while context.entry().thread.load(Ordering::Acquire) == 0 {
            std::thread::yield_now();
        }
        Ok(context)
    }

    /// Ends the thread. Nothing is carried out any more.
    pub(crate) fn close(&self) {
        let open = lock(&self.pairs).len();
        let objects = self.objects.load(Ordering::Acquire);
        if open + objects > 0 {
            misuse::tell(
                self,
                format_args!(
                    "the device is closed with {open} queue pairs and {objects} other objects"
                ),
            );
        }
        self.is_closed.store(true, Ordering::Release);
        if process::own() != self.process {
            return;
        }
        self.entry().ring();
        if let Some(thread) = lock(&self.thread).take() {
            let _ = thread.join();
        }
        self.entry().owner.release();
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire)
    }

    pub(crate) fn fabric(&self) -> &Fabric {
        &self.fabric
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    pub(crate) fn personality(&self) -> &Personality {
        &self.settings.adapters[self.at]
    }

    /// What an adapter of any host is.
    pub(crate) fn personality_of(&self, adapter: usize) -> &Personality {
        self.settings.personality(adapter)
    }

    /// Adds one to a counter of the port, if the driver has it. Where the file cannot be written to, nobody reads it.
    pub(crate) fn count_at_port(&self, counter: &str) {
        let _ = sysfs::count(&self.settings, self.at, counter);
    }

    pub(crate) fn identity(&self) -> Identity {
        self.settings.identity(self.at)
    }

    pub(crate) fn identity_of(&self, adapter: usize) -> Identity {
        Identity::new(adapter, self.personality_of(adapter))
    }

    pub(crate) fn link(&self) -> Link {
        self.personality().link
    }

    /// The adapter's number among those of all hosts.
    pub(crate) fn adapter(&self) -> usize {
        self.settings.host * PER_HOST + self.at
    }

    pub(crate) fn place(&self) -> usize {
        self.place
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn entry(&self) -> &ContextEntry {
        self.fabric.context(self.place)
    }

    pub(crate) fn counters(&self) -> &Counters {
        &self.entry().counters
    }

    pub(crate) fn model(&self) -> Model<'_> {
        Model {
            clock: &self.counters().modelled_time,
            times: &self.times,
        }
    }

    pub(crate) fn count_posted(&self, request: &Request, is_signalled: bool) {
        let counters = self.counters();
        match request.operation {
            Operation::Write => counters.writes.add(1),
            Operation::Read => counters.reads.add(1),
            Operation::Send => counters.sends.add(1),
            Operation::CompareSwap { .. } | Operation::FetchAdd(_) => counters.atomics.add(1),
        }
        counters.signalled.add(is_signalled.into());
        match request.fetches() {
            true => counters.bytes_in.add(request.len),
            false => counters.bytes_out.add(request.len),
        }
        if request.is(send_flag::INLINE) {
            counters.inline_bytes.add(request.len);
        }
    }

    pub(crate) fn events(&self) -> &EventQueue<Reported> {
        &self.events
    }

    pub(crate) fn report(&self, event: Event, of: usize) {
        self.events.report((event, of));
    }

    pub(crate) fn add_pair(&self, pair: &Arc<QueuePair>) {
        lock(&self.pairs).insert(pair.number, pair.clone());
    }

    pub(crate) fn remove_pair(&self, number: u32) {
        lock(&self.pairs).remove(&number);
    }

    pub(crate) fn pairs(&self) -> Vec<Arc<QueuePair>> {
        lock(&self.pairs).values().cloned().collect()
    }

    /// The doorbell: has the thread look at a queue pair.
    pub(crate) fn wake_for(&self, number: u32) {
        let Some(pair) = lock(&self.pairs).get(&number).cloned() else {
            return;
        };
        self.list(&pair);
    }

    /// As above.
    pub(crate) fn list(&self, pair: &Arc<QueuePair>) {
        if !pair.is_listed.swap(true, Ordering::SeqCst) {
            lock(&self.listed).push_back(pair.clone());
        }
        self.entry().ring();
    }

    pub(crate) fn take_listed(&self) -> impl Iterator<Item = Arc<QueuePair>> + use<> {
        std::mem::take(&mut *lock(&self.listed)).into_iter()
    }

    /// Whether peers have called since this was last asked.
    pub(crate) fn is_called(&self) -> bool {
        let called = self.entry().attention.load(Ordering::Acquire);
        self.heard.load(Ordering::Relaxed) != called
            && self.heard.swap(called, Ordering::AcqRel) != called
    }

    /// Notes that a write for an adapter was accepted which is not in memory yet: the thread looks after it.
    pub(crate) fn note_late(&self, adapter: usize) {
        self.late.fetch_or(1 << adapter, Ordering::AcqRel);
        self.entry().ring();
    }

    /// Places the writes that are due. Returns when the next one is.
    pub(crate) fn place_due(&self) -> Option<Duration> {
        let late = self.late.load(Ordering::Acquire);
        let adapters = (0..ADAPTERS).filter(|adapter| late & 1 << adapter != 0);
        let next = |adapter| self.fabric.adapter(adapter).posted.lock().place_due();
        adapters.filter_map(next).min()
    }

    /// Places what this adapter has accepted: it writes something behind it.
    pub(crate) fn place_own(&self) {
        if !self.personality().late.is_zero() {
            self.fabric
                .adapter(self.adapter())
                .posted
                .lock()
                .place_all();
        }
    }

    /// One of the choices that the seed determines.
    pub(crate) fn chooses(&self, number: u32) -> bool {
        // SplitMix64.
        let mut bits = self.settings.seed ^ u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (bits ^ bits >> 31) & 1 == 1
    }

    pub(crate) fn port_is_down(&self, adapter: usize) -> bool {
        self.fabric
            .adapter(adapter)
            .port_down
            .load(Ordering::Acquire)
            != 0
    }

    /// Takes the port down, for all processes of the host.
    pub(crate) fn take_port_down(&self) {
        let adapter = self.adapter();
        self.fabric
            .adapter(adapter)
            .port_down
            .store(1, Ordering::Release);
        for context in self.fabric.contexts_of(adapter) {
            context.ring();
        }
    }

    /// As if the adapter were removed from the machine, for this process.
    pub(crate) fn be_gone(&self) {
        if !self.is_gone.swap(true, Ordering::AcqRel) {
            self.report(Event::DeviceFatal, 0);
        }
    }

    pub(crate) fn is_gone(&self) -> bool {
        self.is_gone.load(Ordering::Acquire)
    }
}

/// Starts a thread to which the process's signals do not go.
fn without_signals<T>(start: impl FnOnce() -> T) -> T {
    let mut all = MaybeUninit::uninit();
    let mut before = MaybeUninit::uninit();
    // SAFETY: sets that are filled before they are used; the mask is this thread's.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_BLOCK, all.as_ptr(), before.as_mut_ptr());
    }
    let started = start();
    // SAFETY: the mask that this thread had.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), ptr::null_mut()) };
    started
}
