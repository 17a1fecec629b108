//! Layouts whose pieces at the origin lie in registered memory: a device takes many of them with one
//! work request, straight from where they are.

use std::ptr::NonNull;

use transom::raw::{Assert, Committed, Datatype, Window};
use transom::{BasicType, Info, Job};
use transom_testing::devices::is_tcp;
use transom_testing::environment;

use super::transfer::{get_layout, put_layout};
use crate::case::{Case, Outcome, cases, check, check_eq};
use crate::exposed::{Exposed, Memory, patterned};

pub(crate) const CASES: &[Case] = cases!["datatypes":
    registered_pieces_travel_together @ [2],
    pieces_of_two_registrations @ [2],
];

const PIECES: usize = 24;
/// As many as a device takes with one request.
const TOGETHER: usize = 12;
/// Too long for two of them to be copied together on their way out.
const LONG: usize = 1500;
/// Copied one by one on their way in, where they are not registered.
const SHORT: usize = 100;

/// Memory of this rank, registered or not.
struct Origin<'j> {
    job: &'j Job,
    registered: bool,
    base: NonNull<u8>,
    bytes: Vec<u8>,
    len: usize,
}

impl<'j> Origin<'j> {
    fn new(job: &'j Job, registered: bool, len: usize) -> Result<Self, transom::Error> {
        let mut bytes = vec![0; if registered { 0 } else { len }];
        let base = match registered {
            true => job.alloc_mem(len, &Info::new())?,
            false => NonNull::new(bytes.as_mut_ptr()).expect("a vector's address"),
        };
        Ok(Self {
            job,
            registered,
            base,
            bytes,
            len,
        })
    }

    fn fill(&mut self, bytes: &[u8]) {
        assert_eq!(bytes.len(), self.len);
        // SAFETY: as long, and ours; no operation is under way.
        unsafe { self.base.as_ptr().copy_from(bytes.as_ptr(), self.len) };
    }

    fn seen(&self) -> Vec<u8> {
        let mut seen = vec![0; self.len];
        // SAFETY: as in `fill`.
        unsafe { seen.as_mut_ptr().copy_from(self.base.as_ptr(), self.len) };
        seen
    }

    fn free(self) -> Outcome {
        drop(self.bytes);
        if self.registered {
            // SAFETY: all operations are complete, and no window is over it.
            unsafe { self.job.free_mem(self.base)? };
        }
        Ok(())
    }
}

/// Work requests of this rank so far, where the device counts them.
pub(crate) fn requests(job: &Job) -> Option<u64> {
    job.device_usage().map(|usage| usage.requests)
}

/// What the pieces of `len` bytes, one in every `stride`, hold together.
fn pieces_of(bytes: &[u8], len: usize, stride: usize) -> Vec<u8> {
    let pieces = bytes.chunks(stride).take(PIECES);
    pieces.flat_map(|piece| &piece[..len]).copied().collect()
}

fn registered_pieces_travel_together(job: &Job) -> Outcome {
    // What no neighbour maps.
    let window = Exposed::open(job, Memory::Heap, PIECES * LONG, 1)?;
    for registered in [true, false] {
        if window.rank() == 1 {
            window.lock_all(Assert::NONE)?;
            // Connects, and takes the lock, so that the requests after it are the layouts'.
            let byte = Committed::of(BasicType::U8).times(1);
            put_layout(&window, [0_u8].as_ptr(), byte, 0, 0, byte)?;
            window.flush(0)?;
            moves(job, &window, registered, LONG, true)?;
            moves(job, &window, registered, SHORT, false)?;
            window.unlock_all()?;
        }
        job.world().barrier()?;
        let stride = stride_of(LONG);
        let wanted = pieces_of(&patterned(1, PIECES * stride, LONG), LONG, stride);
        check!(
            window.rank() == 1 || window.bytes() == wanted,
            "registered: {registered}"
        );
        window.write(0, &[0; PIECES * LONG]);
        job.world().barrier()?;
    }
    window.close()
}

/// Puts pieces of `len` bytes to rank 0, or gets them from there, and counts the work requests.
fn moves(job: &Job, window: &Window, registered: bool, len: usize, put: bool) -> Outcome {
    let what = format!("pieces of {len} bytes, registered: {registered}");
    let stride = stride_of(len);
    let old = BasicType::U8.into();
    let column = Datatype::hvector(PIECES as i64, len as i64, stride as i64, &old)?.commit();
    let dense = Committed::of(BasicType::U8).times((PIECES * len) as u64);
    let mut origin = Origin::new(job, registered, PIECES * stride)?;
    let before = patterned(1, PIECES * stride, len);
    origin.fill(&before);
    let (place, layout) = (origin.base.as_ptr(), column.times(1));
    let posted = requests(job);
    match put {
        true => put_layout(window, place, layout, 0, 0, dense)?,
        false => get_layout(window, place, layout, 0, 0, dense)?,
    }
    window.flush(0)?;
    let taken = requests(job).zip(posted).map(|(now, then)| now - then);
    let mut there = vec![0; PIECES * len];
    get_layout(window, there.as_mut_ptr(), dense, 0, 0, dense)?;
    window.flush(0)?;
    let here = origin.seen();
    check!(pieces_of(&here, len, stride) == there, "{what}");
    check!(!put || here == before, "the origin of {what}");
    for (now, then) in here.chunks(stride).zip(before.chunks(stride)) {
        check!(now[len..] == then[len..], "between {what}");
    }
    if let Some(taken) = taken {
        let data = match registered {
            // A request has as many pieces as there are.
            _ if is_tcp(&environment::own_device()) => 1,
            true => (PIECES / TOGETHER) as u64,
            false => PIECES as u64,
        };
        // One may ask how far the others are.
        let legal = data..=data + 1;
        check!(legal.contains(&taken), "{what}: {taken} work requests");
    }
    origin.free()
}

fn stride_of(len: usize) -> usize {
    len + len / 3
}

/// No key is of all of these pieces.
fn pieces_of_two_registrations(job: &Job) -> Outcome {
    let window = Exposed::open(job, Memory::Allocate, PIECES * LONG, 1)?;
    let target = (window.rank() + 1) % window.ranks();
    let mut halves = [true, true].map(|registered| Origin::new(job, registered, PIECES * LONG));
    for (round, half) in halves.iter_mut().flatten().enumerate() {
        half.fill(&patterned(window.rank(), PIECES * LONG, round));
    }
    let [even, odd] = halves;
    let (even, odd) = (even?, odd?);
    let places: Vec<i64> = (0..PIECES)
        .map(|piece| {
            let half = [&even, &odd][piece % 2];
            half.base.as_ptr().addr() as i64 + (piece * LONG) as i64
        })
        .collect();
    let lens = [LONG as i64; PIECES];
    let alternating = Datatype::hindexed(&lens, &places, &BasicType::U8.into())?.commit();
    let dense = Committed::of(BasicType::U8).times((PIECES * LONG) as u64);
    let bottom = std::ptr::null_mut();
    window.fence(Assert::NONE)?;
    put_layout(&window, bottom, alternating.times(1), target, 0, dense)?;
    window.fence(Assert::NONE)?;
    let sources = [0, 1].map(|round| patterned(target, PIECES * LONG, round));
    for piece in 0..PIECES {
        let wanted = &sources[piece % 2][piece * LONG..][..LONG];
        check_eq!(window.read(piece * LONG, LONG), wanted, "piece {piece}");
    }
    window.fence(Assert::NONE)?;
    get_layout(
        &window,
        bottom,
        alternating.times(1),
        window.rank(),
        0,
        dense,
    )?;
    window.fence(Assert::NO_SUCCEED)?;
    for piece in 0..PIECES {
        let found = &[&even, &odd][piece % 2].seen()[piece * LONG..][..LONG];
        check_eq!(
            found,
            &sources[piece % 2][piece * LONG..][..LONG],
            "piece {piece} got"
        );
    }
    even.free()?;
    odd.free()?;
    window.close()
}
