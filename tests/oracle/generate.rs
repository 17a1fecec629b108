//! Random programs: a pure function of the seed, so that every rank makes the same one.
//!
//! They are valid, and their outcome can be decided: memory is cut into areas, each of which belongs
//! to one thread, or to readers, or is contested in a way that the model understands. Where a thread
//! would conflict with its own operations that are under way, it flushes first, or lets it be.

use transom::raw::Assert;
use transom_testing::random::Random;

use crate::areas::{Contested, areas, contested};
use crate::handovers;
use crate::program::{Epoch, Memory, Program, Role, Round, Sync, WindowSpec};
use crate::scripts::Writer;
use crate::windows::window;

/// Seeds of one residue make programs of the same number of ranks and level of threads.
pub(crate) const CLASSES: u64 = 8;

pub(crate) fn ranks_of(seed: u64) -> u32 {
    2 + (seed % 4) as u32
}

/// Whether a job for this seed's programs has several threads per rank.
pub(crate) fn is_threaded(seed: u64) -> bool {
    seed % CLASSES < 4
}

/// What is chosen for this seed.
pub(crate) fn choices(seed: u64) -> Random {
    Random::new(seed ^ 0x5eed_0f0a_11d1_ce5a)
}

pub(crate) fn program(seed: u64) -> Program {
    let mut random = choices(seed);
    let ranks = ranks_of(seed);
    let threads = match is_threaded(seed) {
        true => random.from(1, 3),
        false => 1,
    };
    let windows: Vec<_> = (0..random.from(1, 3))
        .map(|_| window(&mut random, ranks))
        .collect();
    let mut writer = Writer::new(ranks, threads);
    let mut epochs = 0;
    let rounds = (0..random.from(2, 4))
        .map(|_| round(&mut random, &windows, &mut writer, &mut epochs))
        .collect();
    Program {
        seed,
        ranks,
        windows,
        rounds,
    }
}

fn round(
    random: &mut Random,
    windows: &[WindowSpec],
    writer: &mut Writer,
    epochs: &mut usize,
) -> Round {
    let count = random.from(1, 3);
    let last = random.below(windows.len());
    let mut stores = Vec::new();
    let contested = contested(random, &windows[last], last, &mut stores);
    let is_dynamic = |at: &usize| windows[*at].parts[0].memory == Memory::Dynamic;
    let dynamic = (0..windows.len()).filter(is_dynamic);
    let mut round = Round {
        stores,
        reattached: dynamic.filter(|_| random.one_in(2)).collect(),
        epochs: Vec::new(),
    };
    let (mut window, mut sync) = (last, sync(random, &windows[last]));
    for left in (0..count).rev() {
        let is_last = left == 0;
        // Often of the window and the kind of before: then epochs meet without a barrier between.
        if is_last {
            if window != last {
                (window, sync) = (last, self::sync(random, &windows[last]));
            }
        } else if random.one_in(2) {
            window = random.below(windows.len());
            sync = self::sync(random, &windows[window]);
        }
        if random.one_in(2) {
            sync = again(random, sync, writer.ranks);
        }
        // Sections need locks of their own; other epochs leave those areas alone.
        if is_last
            && contested
                .iter()
                .any(|contested| contested.area.role == Role::Section)
            && windows[last].locks
        {
            sync = Sync::Locks;
        }
        let spec = &windows[window];
        let kept_out: &[Contested] = if window == last { &contested } else { &[] };
        let areas = areas(random, spec, &sync, kept_out, is_last, writer);
        *epochs += 1;
        let mut epoch = Epoch {
            number: *epochs,
            window,
            sync: sync.clone(),
            areas,
            scripts: Vec::new(),
            before: Vec::new(),
        };
        writer.write(random, spec, &mut epoch);
        handovers::write(random, spec, writer, &mut epoch);
        round.epochs.push(epoch);
    }
    round
}

fn sync(random: &mut Random, spec: &WindowSpec) -> Sync {
    let ranks = spec.parts.len() as u32;
    match random.below(if spec.locks { 8 } else { 3 }) {
        0 | 1 => Sync::Fence {
            opening: random.pick(&[Assert::NONE, Assert::NO_PRECEDE]),
            closing: random.pick(&[Assert::NONE, Assert::NO_SUCCEED]),
        },
        2 | 3 => Sync::Exposure {
            origins: groups(random, ranks),
            unchecked: random.one_in(4),
            by_test: random.one_in(3),
        },
        4 | 5 => Sync::Locks,
        _ => Sync::LockAll {
            assert: random.pick(&[Assert::NONE, Assert::NONE, Assert::NO_CHECK]),
            goes_on: random.one_in(2),
        },
    }
}

fn groups(random: &mut Random, ranks: u32) -> Vec<Vec<u32>> {
    let often = random.from(1, 3);
    let mut group = |_| (0..ranks).filter(|_| !random.one_in(often + 1)).collect();
    (0..ranks).map(&mut group).collect()
}

/// The same kind of synchronisation, with other groups.
fn again(random: &mut Random, sync: Sync, ranks: u32) -> Sync {
    match sync {
        Sync::Exposure {
            unchecked, by_test, ..
        } => Sync::Exposure {
            origins: groups(random, ranks),
            unchecked,
            by_test,
        },
        other => other,
    }
}
