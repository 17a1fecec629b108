//! The checks between two ranks. Both ranks call each check at the same time.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use rdma_sys_shim::{AtomicDomain, Direction};

use super::link::{
    ADDED, ADDED_ANSWER, ADDS_DONE, BLOCK, Link, STORED, STORED_ANSWER, SUM, SUM_BESIDE_PROCESSOR,
    TRIED, Word,
};

/// The role of a rank in a check.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Origin,
    Target,
}

/// A remark, or the error.
pub(super) type Outcome = Result<String, String>;

const NOTHING: Outcome = Ok(String::new());

/// Lengths around those at which devices change their method.
const LENGTHS: [usize; 7] = [1, 8, 9, 255, 4096, 65_537, BLOCK];

/// The origin writes data and reads it back.
pub(super) fn data(link: &Link, role: Role) -> Outcome {
    if role == Role::Target {
        return NOTHING;
    }
    for len in LENGTHS {
        let bytes: Vec<u8> = (0..len).map(|at| (at * 31 + len) as u8).collect();
        link.set_out(&bytes);
        link.finish(link.transfer(Direction::Write, len)?)?;
        link.set_out(&vec![0; len]);
        link.finish(link.transfer(Direction::Read, len)?)?;
        let found = link.get_out(len);
        if let Some(at) = (0..len).find(|&at| found[at] != bytes[at]) {
            let (found, bytes) = (found[at], bytes[at]);
            return Err(format!(
                "of {len} bytes, byte {at} is {found:#x}, where {bytes:#x} was written"
            ));
        }
    }
    Ok(format!("{} lengths up to {BLOCK} bytes", LENGTHS.len()))
}

/// A number whose bytes all differ, like those of the sum, so that a wrong byte order shows.
const START: u64 = 0x0102_0304_0506_0708;
const ADD: u64 = 0x1112_1314_1516_1718;
const NEW: u64 = 0x2122_2324_2526_2728;

/// The origin performs atomics on a word of the target.
pub(super) fn atomics(link: &Link, role: Role) -> Outcome {
    if role == Role::Target {
        return NOTHING;
    }
    let found = [
        link.add(TRIED, START)?,
        link.add(TRIED, ADD)?,
        link.swap(TRIED, START + ADD, NEW)?,
        link.swap(TRIED, START + ADD, START)?,
    ];
    let wanted = [0, START, START + ADD, NEW];
    match found == wanted {
        true => Ok("fetch_add, compare_swap".to_owned()),
        false => Err(format!("answers {found:x?}, where {wanted:x?} are right")),
    }
}

/// The target finds their results in memory.
pub(super) fn atomics_in_memory(link: &Link, role: Role) -> Outcome {
    match (role, link.load(TRIED)) {
        (Role::Origin, _) => NOTHING,
        (_, NEW) => Ok("bytes in the processor's order".to_owned()),
        (_, found) => Err(format!("{found:#x} in memory, where {NEW:#x} is right")),
    }
}

/// How often each of two ranks adds to one word.
const ADDS: u64 = 2000;

/// Both ranks add to a word of the target through the device.
pub(super) fn sums(link: &Link, role: Role) -> Outcome {
    for _ in 0..ADDS {
        match role {
            Role::Origin => link.add(SUM, 1).map(drop)?,
            Role::Target => link.add_to_own(SUM)?,
        }
    }
    NOTHING
}

pub(super) fn sums_in_memory(link: &Link, role: Role) -> Outcome {
    match (role, 2 * ADDS - link.load(SUM).min(2 * ADDS)) {
        (Role::Origin, _) => NOTHING,
        (_, 0) => Ok(format!("{} adds of two ranks", 2 * ADDS)),
        (_, lost) => Err(format!(
            "{lost} of {} adds of two ranks were lost",
            2 * ADDS
        )),
    }
}

/// The origin adds through the device, and the target adds by its processor until the origin is done.
pub(super) fn sums_beside_processor(link: &Link, role: Role) -> Outcome {
    if role == Role::Target {
        link.add_by_processor_until(SUM_BESIDE_PROCESSOR, ADDS_DONE, 1)?;
        return NOTHING;
    }
    for _ in 0..ADDS {
        link.add(SUM_BESIDE_PROCESSOR, 1)?;
    }
    link.finish(link.store(ADDS_DONE, 0, 1)?)?;
    NOTHING
}

pub(super) fn sums_beside_processor_in_memory(link: &Link, role: Role) -> Outcome {
    if role == Role::Origin {
        return NOTHING;
    }
    let own = link.processor_adds();
    let lost = ADDS + own - link.load(SUM_BESIDE_PROCESSOR).min(ADDS + own);
    let adds = format!("{ADDS} adds of the device and {own} of the processor");
    let said = match lost {
        0 => format!("all {adds} took effect"),
        _ => format!("{lost} of {adds} were lost"),
    };
    match (link.device.capabilities().atomic_domain, lost) {
        (AtomicDomain::Device, _) => Ok(format!("{said}; its atomics are its own, as it says")),
        (_, 0) => Ok(format!(
            "{said}; its atomics are the processor's, as it says"
        )),
        _ => Err(format!(
            "{said}, though it says that its atomics are the processor's"
        )),
    }
}

/// Bytes before each flag, and the number of rounds.
const ROUNDS: [(usize, u64); 3] = [(64, 1000), (4096, 500), (256 << 10, 20)];

/// The kind of flag that the origin sends after the data.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum FlagKind {
    Stored,
    Added,
}

impl FlagKind {
    fn words(self) -> (Word, Word) {
        match self {
            Self::Stored => (STORED, STORED_ANSWER),
            Self::Added => (ADDED, ADDED_ANSWER),
        }
    }
}

/// The origin writes data, and after it a flag. When the target sees the flag, it checks the data and answers.
pub(super) fn order(link: &Link, role: Role, flag: FlagKind) -> Outcome {
    let ((word, answer), mut round, mut wrong) = (flag.words(), 0_u64, None);
    for (len, rounds) in ROUNDS {
        for _ in 0..rounds {
            round += 1;
            if role == Role::Origin {
                let bytes: Vec<u8> = round.to_ne_bytes().repeat(len / 8);
                link.set_out(&bytes);
                link.transfer(Direction::Write, len)?;
                let ticket = match flag {
                    FlagKind::Stored => link.store(word, round - 1, round)?,
                    FlagKind::Added => link.begin_add(word, 1)?,
                };
                link.finish(ticket)?;
                link.wait_for(answer, round)?;
                continue;
            }
            link.wait_for(word, round)?;
            let found = link.get_in(len);
            let late = found
                .chunks_exact(8)
                .position(|word| word != round.to_ne_bytes());
            if let Some(at) = late {
                wrong.get_or_insert(format!(
                    "round {round}: the flag was there before byte {} of {len}",
                    8 * at
                ));
            }
            link.finish(link.store(answer, round - 1, round)?)?;
        }
    }
    match (wrong, role) {
        (Some(wrong), _) => Err(wrong),
        (None, Role::Target) => Ok(format!("{round} rounds of up to {} bytes", ROUNDS[2].0)),
        (None, Role::Origin) => NOTHING,
    }
}

/// How long transfers are timed, and how many are in progress at a time.
const TIMED: Duration = Duration::from_millis(300);
const AT_A_TIME: usize = 8;

/// The rate at which the origin writes to the target, in bytes per second; 0 at the target.
pub(super) fn bandwidth(link: &Link, role: Role) -> Result<f64, String> {
    if role == Role::Target {
        return Ok(0.0);
    }
    link.finish(link.transfer(Direction::Write, BLOCK)?)?;
    let (start, mut blocks, mut posted) = (Instant::now(), 0_u32, VecDeque::new());
    while start.elapsed() < TIMED || blocks < AT_A_TIME as u32 {
        if posted.len() == AT_A_TIME
            && let Some(oldest) = posted.pop_front()
        {
            link.finish(oldest)?;
        }
        posted.push_back(link.transfer(Direction::Write, BLOCK)?);
        blocks += 1;
    }
    posted
        .into_iter()
        .try_for_each(|ticket| link.finish(ticket))?;
    Ok(f64::from(blocks) * BLOCK as f64 / start.elapsed().as_secs_f64())
}
