//! To whom a rank sends and from whom it receives, in which order: around the ring of all ranks, up and down a tree, or by
//! hosts.
//!
//! The ring is fastest if every rank has a processor: it takes log2(n) rounds, in each of which all ranks send and
//! receive. If ranks are oversubscribed, each round waits until all of them have been scheduled. A tree with many
//! branches, up and down, waits for this only twice if it has one level.
//!
//! By hosts, arrivals go up a binomial tree of the ranks of a host to its leader, around the ring of leaders, and back
//! down the tree. So n hosts exchange n · ceil(log2(n)) flags, however many ranks there are.

use crate::comm::by_host::ByHost;
use crate::comm::ring::Ring;
use crate::peers::rounds;

/// One step: this rank signals one rank, and then waits for one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) to: Option<Flag>,
    pub(crate) from: Option<Flag>,
}

/// A flag in the receiver's block: the other rank of the step, and the flag's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Flag {
    pub(crate) rank: u32,
    pub(crate) number: u32,
}

fn flag(rank: u32, number: u32) -> Option<Flag> {
    Some(Flag { rank, number })
}

/// The most ranks that one rank waits for in a tree. Each costs a line in every block, oversubscribed or not.
const BRANCHES: u32 = 8;

/// The number of flags of each rank, whether or not the ranks are oversubscribed.
pub(super) fn flags(all: &Ring, by_host: Option<&ByHost>) -> u32 {
    match by_host {
        // A tree has one flag for the release and one for each branch.
        None => all.rounds().max(all.size().min(BRANCHES + 1)),
        Some(hosts) => hosts.rounds_here() + hosts.rounds_of_leaders() + 1,
    }
}

/// The steps of the rank to which the ring `all` belongs. `oversubscribed`: all ranks know that they are.
pub(super) fn steps(all: &Ring, by_host: Option<&ByHost>, oversubscribed: bool) -> Vec<Step> {
    (0..)
        .map_while(|number| step(all, by_host, oversubscribed, number))
        .collect()
}

/// The rank's step with this number, counted from 0; `None` after the last.
pub(super) fn step(
    all: &Ring,
    by_host: Option<&ByHost>,
    oversubscribed: bool,
    number: u32,
) -> Option<Step> {
    match by_host {
        Some(hosts) => by_hosts(hosts, number),
        None if oversubscribed => up_and_down(all, number),
        None => around(all, 0, number),
    }
}

fn hear(rank: u32, number: u32) -> Step {
    Step {
        to: None,
        from: flag(rank, number),
    }
}

fn tell(rank: u32, number: u32) -> Step {
    Step {
        to: flag(rank, number),
        from: None,
    }
}

/// A tree with the first rank at its root.
fn up_and_down(all: &Ring, number: u32) -> Option<Step> {
    // The first flag is that of the parent, which releases this rank.
    let released = 0;
    let arrived = |place: u32| 1 + (place - 1) % BRANCHES;
    let (place, size) = (all.place, all.size());
    let first = (u64::from(place) * u64::from(BRANCHES) + 1).min(size.into()) as u32;
    let below = size.min(first.saturating_add(BRANCHES)) - first;
    if number < below {
        let child = first + number;
        return Some(hear(all.rank_at(child), arrived(child)));
    }
    if place > 0 && number == below {
        let parent = all.rank_at((place - 1) / BRANCHES);
        return Some(Step {
            to: flag(parent, arrived(place)),
            from: flag(parent, released),
        });
    }
    let behind = number - below - u32::from(place > 0);
    (behind < below).then(|| tell(all.rank_at(first + behind), released))
}

fn by_hosts(hosts: &ByHost, number: u32) -> Option<Step> {
    let of_leaders = hosts.rounds_here();
    let released = of_leaders + hosts.rounds_of_leaders();
    let here = &hosts.here;
    // The children of this rank are 2^0, 2^1, … 2^(below - 1) places ahead.
    let most = match here.place {
        0 => here.rounds(),
        place => place.trailing_zeros(),
    };
    let below = most.min(rounds(here.size() - here.place));
    let child = |round: u32| here.rank_at(here.place + (1 << round));
    if number < below {
        return Some(hear(child(number), number));
    }
    let among_leaders = hosts.leaders.as_ref().map_or(1, Ring::rounds);
    let behind = number - below;
    if behind < among_leaders {
        return match &hosts.leaders {
            Some(leaders) => around(leaders, of_leaders, behind),
            None => {
                let parent = here.rank_at(here.place - (1 << most));
                Some(Step {
                    to: flag(parent, most),
                    from: flag(parent, released),
                })
            }
        };
    }
    let round = below.checked_sub(behind - among_leaders + 1)?;
    Some(tell(child(round), released))
}

/// Dissemination: in round r, signal the rank 2^r ahead and wait for the rank 2^r behind.
fn around(ring: &Ring, first: u32, round: u32) -> Option<Step> {
    (round < ring.rounds()).then(|| Step {
        to: flag(ring.ahead(1 << round), first + round),
        from: flag(ring.behind(1 << round), first + round),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comm::by_host::tests::by_host;

    fn all_steps(hosts: &[u32]) -> Vec<Vec<Step>> {
        steps_of(hosts, false)
    }

    fn steps_of(hosts: &[u32], oversubscribed: bool) -> Vec<Vec<Step>> {
        let size = hosts.len() as u32;
        let of = |rank| {
            let all = Ring::all(size, rank);
            steps(&all, by_host(hosts, rank).as_ref(), oversubscribed)
        };
        (0..size).map(of).collect()
    }

    /// Lets all ranks take their steps as far as they come; says who knows of whom in the end, by bits.
    fn pass(all: &[Vec<Step>]) -> Vec<u128> {
        let ranks = all.len();
        let mut knows: Vec<u128> = (0..ranks).map(|rank| 1 << rank).collect();
        let mut told: Vec<Vec<Option<u128>>> = vec![vec![None; 40]; ranks];
        // Of each rank, how many of its steps it has told and how many it is through with.
        let mut done = vec![(0, 0); ranks];
        loop {
            let before = done.clone();
            for rank in 0..ranks {
                while let Some(step) = all[rank].get(done[rank].1) {
                    if done[rank].0 == done[rank].1 {
                        if let Some(to) = step.to {
                            let place = &mut told[to.rank as usize][to.number as usize];
                            assert!(place.is_none(), "nobody tells what another told: {to:?}");
                            *place = Some(knows[rank]);
                        }
                        done[rank].0 += 1;
                    }
                    match step.from.map(|from| told[rank][from.number as usize]) {
                        Some(None) => break,
                        Some(Some(more)) => knows[rank] |= more,
                        None => {}
                    }
                    done[rank].1 += 1;
                }
            }
            if done == before {
                break;
            }
        }
        for (rank, steps) in all.iter().enumerate() {
            assert_eq!(done[rank].1, steps.len(), "rank {rank} waits for ever");
        }
        knows
    }

    fn placements() -> Vec<Vec<u32>> {
        let mut some = vec![
            vec![0],
            vec![0, 0],
            vec![0, 1],
            vec![0, 1, 1],
            vec![0, 0, 1, 0],
        ];
        for hosts in 1..=5 {
            for size in 1..=17 {
                some.push((0..size).map(|rank| rank % hosts).collect());
                some.push((0..size).map(|rank| rank * hosts / size).collect());
                // One host with almost all.
                some.push(
                    (0..size)
                        .map(|rank: u32| rank.saturating_sub(size - hosts.min(size)))
                        .collect(),
                );
            }
        }
        some
    }

    /// With jobs on one host whose trees have two levels, and more than one branch in each.
    fn placements_with_positions() -> impl Iterator<Item = (Vec<u32>, bool)> {
        let larger = [33, 65, 72, 73, 74, 99, 127].map(|size| vec![0; size]);
        let all = placements().into_iter().chain(larger);
        all.flat_map(|hosts| [(hosts.clone(), false), (hosts, true)])
    }

    #[test]
    fn whoever_is_through_knows_that_all_have_come() {
        for (hosts, oversubscribed) in placements_with_positions() {
            let everyone = (1 << hosts.len()) - 1;
            let knows = pass(&steps_of(&hosts, oversubscribed));
            assert!(knows.iter().all(|&known| known == everyone), "{hosts:?}");
        }
    }

    #[test]
    fn when_oversubscribed_a_few_ranks_tell_one_and_hear_of_it() {
        let all = steps_of(&[0; 5], true);
        assert_eq!(all[0].len(), 8, "it hears four and tells four");
        assert!(all[1..].iter().all(|steps| steps.len() == 1));
    }

    #[test]
    fn what_one_tells_the_other_hears_at_that_place() {
        for (hosts, oversubscribed) in placements_with_positions() {
            let all = steps_of(&hosts, oversubscribed);
            let told = all.iter().enumerate().flat_map(|(rank, steps)| {
                let to = steps.iter().filter_map(|step| step.to);
                to.map(move |flag| (rank as u32, flag.rank, flag.number))
            });
            let heard = all.iter().enumerate().flat_map(|(rank, steps)| {
                let from = steps.iter().filter_map(|step| step.from);
                from.map(move |flag| (flag.rank, rank as u32, flag.number))
            });
            let (mut told, mut heard): (Vec<_>, Vec<_>) = (told.collect(), heard.collect());
            told.sort_unstable();
            heard.sort_unstable();
            assert_eq!(told, heard, "{hosts:?}");
            let size = hosts.len() as u32;
            let flags = flags(&Ring::all(size, 0), by_host(&hosts, 0).as_ref());
            assert!(
                told.iter().all(|&(_, _, number)| number < flags),
                "{hosts:?}"
            );
        }
    }

    #[test]
    fn between_hosts_go_hosts_times_their_logarithm_flags() {
        let between = |hosts: &[u32]| {
            let all = all_steps(hosts);
            let of = |(rank, steps): (usize, &Vec<Step>)| {
                let away = |flag: Flag| hosts[flag.rank as usize] != hosts[rank];
                steps
                    .iter()
                    .filter(|step| step.to.is_some_and(away))
                    .count()
            };
            all.iter().enumerate().map(of).sum::<usize>() as u32
        };
        for (hosts, each) in [(2, 2), (2, 3), (3, 5), (4, 4), (16, 64)] {
            let blocks: Vec<u32> = (0..hosts * each).map(|rank| rank / each).collect();
            let round_robin: Vec<u32> = (0..hosts * each).map(|rank| rank % hosts).collect();
            for placed in [blocks, round_robin] {
                assert_eq!(between(&placed), hosts * rounds(hosts), "{hosts} x {each}");
            }
        }
    }
}
