//! What a stranger or a peer may send, for fuzzers.

use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, OnceLock};

use super::frame::{Kind, Request};
use super::origin::{Destination, Origin, Peer, Source};
use super::regions::Regions;
use super::target::Target;
use super::{MARK, decode};
use crate::channel::{
    KEY, MAGIC, Moved, Namespace, Network, NetworkPlace, OwnDescriptor, Record, Redialled, Status,
};
use crate::device::combine::GivenCombiner;
use crate::device::combine::triple_and_add::TripleAndAdd;
use crate::proof::{Guest, Host, HostStep, Secret};
use crate::{Combination, JobSecret, LocalRegion, Operands, Width, memory};

/// A decoded record survives encoding and decoding.
pub(crate) fn record(bytes: &[u8]) {
    if let Ok(record) = decode(bytes) {
        assert_eq!(decode(&record.encode(MARK)).ok(), Some(record));
    }
}

/// What a process that connects says, in whatever pieces it arrives.
pub(crate) fn greeting(bytes: &[u8]) {
    let (mut host, secret) = (Host::new(&MAGIC, &[2; 32]), Secret::new([1; KEY]));
    let mut rest = bytes;
    while !rest.is_empty() {
        let (now, later) = rest.split_at(host.wants().min(rest.len()));
        rest = later;
        match host.receive(&secret, now) {
            HostStep::Receive | HostStep::Send(..) => {}
            HostStep::Admit(..) => panic!("admitted without the key"),
            HostStep::Refuse(..) => return,
        }
    }
}

const SHOWN: usize = 1 << 16;

/// All requests use the same memory, so that seeds can name it.
fn shown() -> &'static (Arc<Regions>, LocalRegion) {
    static MEMORY: OnceLock<(Arc<Regions>, LocalRegion)> = OnceLock::new();
    MEMORY.get_or_init(|| {
        let regions = Regions::new(1);
        let region = regions
            .allocate(SHOWN, 64)
            .expect("there is so much memory");
        (regions, region)
    })
}

/// Requests, in pieces whose length the first byte gives. Memory that they do not name stays the same.
pub(crate) fn requests(bytes: &[u8]) {
    let Some((&step, bytes)) = bytes.split_first() else {
        return;
    };
    let combiner = GivenCombiner::default();
    combiner.give(Arc::new(TripleAndAdd));
    let mut target = Target::new(shown().0.clone(), combiner, Arc::<Status>::default());
    let mut held = Vec::new();
    for piece in bytes.chunks(1 + usize::from(step)) {
        let direct = match held.is_empty() {
            true => target.direct().min(piece.len()),
            false => 0,
        };
        let (stored, piece) = piece.split_at(direct);
        if direct > 0 {
            let _ = target.receive(|to| {
                // SAFETY: memory that the target lends, for no more bytes than it says.
                unsafe { memory::copy(to, stored.as_ptr(), stored.len()) };
                Ok(Moved::Bytes(stored.len()))
            });
        }
        held.extend(piece);
        loop {
            let Some(used) = target.take(&held) else {
                return;
            };
            held.drain(..used);
            let mut answers = 0;
            let _ = target.send(|parts| {
                answers = parts.iter().map(|part| part.iov_len).sum();
                Ok(Moved::Bytes(answers))
            });
            // A very long read is not followed to its end.
            if answers == 0 || answers > SHOWN {
                break;
            }
        }
        if target.is_locked_out() {
            // Nobody releases the lock, and nothing is received meanwhile.
            return;
        }
        assert!(
            held.len() <= 48 + 256 || target.is_blocked(),
            "{}",
            held.len()
        );
    }
}

/// Answers to a read, an atomic and a write. Memory to which no answer goes stays the same.
pub(crate) fn answers(bytes: &[u8]) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = listener.local_addr().expect("it is bound");
    let stream = TcpStream::connect(address).expect("somebody listens");
    let (_peer, _) = listener.accept().expect("somebody has connected");
    let peer = Peer {
        pid: 1,
        host: "n0".into(),
        redial: Box::new(|| Redialled::Silent),
        status: Arc::default(),
    };
    let mut origin = Origin::new(Arc::new(peer), Arc::new(OwnDescriptor::new(stream)));
    let mut data = [7_u8; 48];
    let mut word = 7_u64;
    let source = [1_u8; 8];
    let post = |origin: &mut Origin, kind, len| {
        let request = request(kind, len);
        let to = data.as_mut_ptr().wrapping_add(16);
        let destination = match kind {
            Kind::Read => Some(Destination::Data { to, len: 16 }),
            Kind::FetchAdd => Some(Destination::Word {
                to: &raw mut word,
                width: Width::W8,
            }),
            _ => None,
        };
        let source = (kind == Kind::Write).then_some(Source {
            base: source.as_ptr(),
            len: source.len(),
        });
        // SAFETY: the buffers outlive the origin's use of them.
        let _ = unsafe { origin.post(&request, source, destination, false) };
    };
    let mut post = post;
    post(&mut origin, Kind::Read, 16);
    post(&mut origin, Kind::FetchAdd, 8);
    post(&mut origin, Kind::Write, 8);
    origin.has_received(bytes);
    assert!(origin.done() <= origin.posted());
    drop(origin);
    assert!(data[..16] == [7; 16] && data[32..] == [7; 16]);
}

fn request(kind: Kind, len: u64) -> Request {
    let lock = shown().1.remote().at(0);
    Request {
        at: shown().1.remote().at(64),
        len,
        what: Combination {
            operands: Operands::One,
            fetches: true,
            ..Combination::default()
        },
        operands: match kind {
            Kind::Combine => [lock.address, lock.rkey],
            _ => [0, 1],
        },
        ..Request::of(kind)
    }
}

/// Valid input, for mutation.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let mut requests = vec![60];
    for (kind, len) in [
        (Kind::Write, 24),
        (Kind::AddEach, 16),
        (Kind::Combine, 16),
        (Kind::Read, 100),
        (Kind::Read, 32 << 10),
        (Kind::CompareSwap, 8),
        (Kind::Store, 8),
        (Kind::Acknowledge, 0),
        (Kind::Leave, 0),
    ] {
        requests.extend(request(kind, len).encode());
        if kind.has_payload() || kind == Kind::Combine {
            requests.resize(requests.len() + len as usize, 3);
        }
    }
    // Bytes for the memory itself; more would follow.
    requests.extend(request(Kind::Write, 32 << 10).encode());
    requests.extend([4; 100]);
    let answers = [
        super::frame::Answer::Data(16).encode().to_vec(),
        vec![5; 16],
        super::frame::Answer::Old(9).encode().to_vec(),
        super::frame::Answer::Done(3).encode().to_vec(),
        super::frame::Answer::Left.encode().to_vec(),
    ];
    let record = Record {
        pid: 1,
        host: "n0".to_owned(),
        instance: 2,
        key: Secret::new([3; KEY]),
        secret: JobSecret::default(),
        port: 6,
        place: NetworkPlace {
            namespace: Namespace {
                boot: [4; 16],
                inode: 5,
            },
            networks: vec![Network {
                address: [10, 0, 0, 1].into(),
                prefix: 8,
            }],
        },
    };
    vec![
        requests,
        answers.concat(),
        record.encode(MARK),
        Guest::new(&MAGIC, [7, 8], &[9; 32]).hello().to_vec(),
    ]
}
