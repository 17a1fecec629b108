//! What the specification of InfiniBand says that requests end with, between two queue pairs of this process.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::abi::{
    Event, Status, access, completion, ibv_ah_attr, ibv_qp_attr, ibv_qp_cap, ibv_recv_wr,
};
use crate::abi::{ibv_sge, ibv_wc, mask, send_flag};
use crate::completion::CompletionQueue;
use crate::context::Context;
use crate::error::Errno;
use crate::fabric::Fabric;
use crate::failure::Failures;
use crate::queue_pair::{QueuePair, State};
use crate::region;
use crate::request::{Operation, Request};
use crate::settings::Settings;
use crate::sysfs;

mod failures;
mod order;
mod statuses;

const ALL: u32 =
    access::LOCAL_WRITE | access::REMOTE_WRITE | access::REMOTE_READ | access::REMOTE_ATOMIC;
const LIMIT: Duration = Duration::from_secs(20);

/// A queue pair with its device, protection domain and completion queue.
struct Side {
    context: Arc<Context>,
    domain: u32,
    queue: Arc<CompletionQueue>,
    pair: Arc<QueuePair>,
}

/// Two connected sides, on the adapters of one host or on one adapter.
struct Two {
    one: Side,
    two: Side,
    _folder: tempfile::TempDir,
}

/// What is chosen of a connection.
#[derive(Clone, Copy)]
struct Plan {
    cap: ibv_qp_cap,
    completions: usize,
    rights: u32,
    retries: u8,
    receive_retries: u8,
    reads_out: u8,
    reads_in: u8,
}

const PLAN: Plan = Plan {
    cap: ibv_qp_cap {
        max_send_wr: 4,
        max_recv_wr: 2,
        max_send_sge: 2,
        max_recv_sge: 2,
        max_inline_data: 64,
    },
    completions: 64,
    rights: ALL,
    retries: 0,
    receive_retries: 1,
    reads_out: 4,
    reads_in: 4,
};

impl Side {
    fn new(context: Arc<Context>, plan: Plan) -> Self {
        let queue = Arc::new(CompletionQueue::new(plan.completions, None));
        let domain = context.fabric().new_domain();
        let queues = [queue.clone(), queue.clone()];
        let pair = QueuePair::new(&context, domain, queues, plan.cap, false).unwrap();
        Self {
            context,
            domain,
            queue,
            pair,
        }
    }

    fn modify(&self, to: State, attributes: ibv_qp_attr, what: i32) -> Result<(), Errno> {
        let attributes = ibv_qp_attr {
            qp_state: to as i32,
            ..attributes
        };
        self.pair
            .modify(&self.context, &attributes, what | mask::STATE)
    }

    fn prepare(&self, rights: u32) {
        let attributes = ibv_qp_attr {
            port_num: 1,
            qp_access_flags: rights,
            ..ibv_qp_attr::default()
        };
        let what = mask::PKEY_INDEX | mask::PORT | mask::ACCESS_FLAGS;
        self.modify(State::Init, attributes, what).unwrap();
    }

    fn receive_from(&self, peer: &Self, plan: Plan) -> Result<(), Errno> {
        let identity = peer.context.identity();
        let attributes = ibv_qp_attr {
            path_mtu: 5,
            dest_qp_num: peer.pair.number,
            rq_psn: 7,
            max_dest_rd_atomic: plan.reads_in,
            min_rnr_timer: 1,
            ah_attr: ibv_ah_attr {
                dlid: identity.lid(),
                dgid: identity.gids()[0],
                is_global: 1,
                port_num: 1,
                ..ibv_ah_attr::default()
            },
            ..ibv_qp_attr::default()
        };
        let what = mask::AV
            | mask::PATH_MTU
            | mask::DEST_QPN
            | mask::RQ_PSN
            | mask::MAX_DEST_RD_ATOMIC
            | mask::MIN_RNR_TIMER;
        self.modify(State::ReadyToReceive, attributes, what)
    }

    fn send_to_peer(&self, plan: Plan) -> Result<(), Errno> {
        let attributes = ibv_qp_attr {
            timeout: 10,
            retry_cnt: plan.retries,
            rnr_retry: plan.receive_retries,
            sq_psn: 7,
            max_rd_atomic: plan.reads_out,
            ..ibv_qp_attr::default()
        };
        let what = mask::TIMEOUT
            | mask::RETRY_CNT
            | mask::RNR_RETRY
            | mask::SQ_PSN
            | mask::MAX_QP_RD_ATOMIC;
        self.modify(State::ReadyToSend, attributes, what)
    }

    fn register(&self, memory: &[u64], rights: u32) -> u32 {
        let address = memory.as_ptr().expose_provenance() as u64;
        let len = size_of_val(memory) as u64;
        region::register(&self.context, self.domain, address, len, rights).unwrap()
    }

    fn post(&self, request: Request) -> Result<(), Errno> {
        self.pair.post_send(&self.context, request)?;
        self.context.list(&self.pair);
        Ok(())
    }

    fn post_receive(&self, id: u64, pieces: &[ibv_sge]) -> Result<(), Errno> {
        let request = ibv_recv_wr {
            wr_id: id,
            next: std::ptr::null_mut(),
            sg_list: std::ptr::null_mut(),
            num_sge: 0,
        };
        self.pair.post_receive(&self.context, &request, pieces)?;
        self.context.list(&self.pair);
        Ok(())
    }

    /// The next completion.
    fn wait(&self) -> ibv_wc {
        let end = Instant::now() + LIMIT;
        let mut found = [ibv_wc::default()];
        while self.queue.poll(&mut found, u64::MAX).0 == 0 {
            assert!(Instant::now() < end, "no completion");
            std::thread::yield_now();
        }
        found[0]
    }

    /// How the next request ends.
    fn status(&self) -> Status {
        Status::of(self.wait().status as u32)
    }

    fn wait_for_state(&self, state: State) {
        let end = Instant::now() + LIMIT;
        while self.pair.entry(&self.context).state() != state {
            assert!(
                Instant::now() < end,
                "still {:?}",
                self.pair.entry(&self.context).state()
            );
            std::thread::yield_now();
        }
    }

    fn event(&self) -> Event {
        self.context.events().take().unwrap().0
    }

    fn misuses(&self) -> u64 {
        self.context.counters().misuses.get()
    }
}

impl Drop for Side {
    fn drop(&mut self) {
        self.pair.destroy(&self.context);
        self.context.close();
    }
}

impl Two {
    /// Both sides on one adapter of this kind.
    fn on(adapter: &str, plan: Plan) -> Self {
        Self::with(&[adapter], "", plan)
    }

    /// The sides on the first and the last of these adapters, with failures of the first side.
    fn with(adapters: &[&str], failures: &str, plan: Plan) -> Self {
        let two = Self::unconnected(adapters, failures, plan);
        two.connect(plan);
        two
    }

    fn unconnected(adapters: &[&str], failures: &str, plan: Plan) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let fabric = Arc::new(Fabric::open(&sysfs::fabric(folder.path())).unwrap());
        let settings = Settings::new(folder.path(), 0, &adapters.join(";")).unwrap();
        let failing = Settings {
            failures: Failures::parse(failures).unwrap(),
            ..settings.clone()
        };
        let open =
            |settings: Settings, at| Context::open(fabric.clone(), Arc::new(settings), at).unwrap();
        Self {
            one: Side::new(open(failing, 0), plan),
            two: Side::new(open(settings, adapters.len() - 1), plan),
            _folder: folder,
        }
    }

    fn connect(&self, plan: Plan) {
        for (own, peer) in [(&self.one, &self.two), (&self.two, &self.one)] {
            own.prepare(plan.rights);
            own.receive_from(peer, plan).unwrap();
        }
        for side in [&self.one, &self.two] {
            side.send_to_peer(plan).unwrap();
        }
    }

    fn plain() -> Self {
        Self::on("mlx5", PLAN)
    }
}

/// Memory of both sides with its keys.
fn memory(two: &Two, len: usize) -> (Vec<u64>, u32, Vec<u64>, u32) {
    let (from, to) = (vec![5_u64; len], vec![0_u64; len]);
    let lkey = two.one.register(&from, ALL);
    let rkey = two.two.register(&to, ALL);
    (from, lkey, to, rkey)
}

/// A piece of memory.
fn piece(memory: &[u64], key: u32) -> ibv_sge {
    ibv_sge {
        addr: memory.as_ptr().expose_provenance() as u64,
        length: size_of_val(memory) as u32,
        lkey: key,
    }
}

/// A signalled request.
fn request(operation: Operation, from: ibv_sge, to: &[u64], key: u32) -> Request {
    Request {
        id: 1,
        operation,
        immediate: None,
        flags: send_flag::SIGNALED,
        pieces: vec![from],
        inline: None,
        len: from.length.into(),
        address: to.as_ptr().expose_provenance() as u64,
        key,
        number: 0,
        modelled: 0,
        ended: None,
    }
}

/// Words that an adapter accesses, read as memory that others change.
fn load(memory: &[u64], at: usize) -> u64 {
    // SAFETY: a word of this slice.
    unsafe { (&raw const memory[at]).read_volatile() }
}
