//! Five ranks and a network: messages may be lost or come twice, those of a pair of ranks stay in order, and all else
//! happens in an order that a seed chooses.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::{Agreement, AgreementMessage, Outcome, REPEAT, Ranks, What};

const SIZE: u32 = 5;
const PATIENCE: Duration = Duration::from_secs(2);
/// More than any run needs.
const MOST_STEPS: u32 = 50_000;

/// What happens at a step.
#[derive(Clone, Copy, Debug)]
enum Event {
    Dies(u32),
    /// The first suspects the second, which lives.
    Suspects(u32, u32),
}

struct World {
    ranks: Vec<Option<Agreement>>,
    lines: BTreeMap<(u32, u32), VecDeque<AgreementMessage>>,
    /// Deaths that a rank has not heard of.
    news: Vec<(u32, u32)>,
    dead: Ranks,
    /// Those on the other side of a broken network.
    cut_off: Ranks,
    /// This rank still sends, but hears nothing.
    deaf: Option<u32>,
    now: Duration,
    /// How often time may still pass while messages are under way.
    delays: u32,
    /// Who suspects whom. Ranks say it again and again.
    suspicions: Vec<(u32, u32)>,
    /// Whether messages may be lost, or come twice.
    unreliable: bool,
    random: u64,
}

impl World {
    fn new(seed: u64, callers: impl IntoIterator<Item = u32>) -> Self {
        let mut world = Self {
            ranks: (0..SIZE).map(|_| None).collect(),
            lines: BTreeMap::new(),
            news: Vec::new(),
            dead: Ranks::new(),
            cut_off: Ranks::new(),
            deaf: None,
            now: Duration::ZERO,
            delays: 6,
            suspicions: Vec::new(),
            unreliable: false,
            random: seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1,
        };
        for rank in callers {
            world.ranks[rank as usize] = Some(Agreement::new(rank, SIZE, world.now, PATIENCE));
        }
        world
    }

    fn below(&mut self, bound: usize) -> usize {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 33) as usize % bound
    }

    fn living(&self) -> impl Iterator<Item = (u32, &Agreement)> {
        let ranks = (0..).zip(&self.ranks);
        ranks.filter_map(|(rank, agreement)| {
            let agreement = agreement.as_ref().filter(|_| !self.dead.contains(&rank));
            agreement.map(|agreement| (rank, agreement))
        })
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Dies(rank) => {
                if self.dead.insert(rank) {
                    self.news.extend((0..SIZE).map(|other| (other, rank)));
                }
            }
            Event::Suspects(who, whom) if !self.dead.contains(&who) => {
                let now = self.now;
                if let Some(agreement) = &mut self.ranks[who as usize] {
                    agreement.suspect(whom, false, now);
                }
                self.suspicions.push((who, whom));
                self.post(who);
            }
            Event::Suspects(..) => {}
        }
    }

    fn post(&mut self, from: u32) {
        while let Some((to, message)) =
            (self.ranks[from as usize].as_mut()).and_then(Agreement::next_message)
        {
            let is_apart = self.cut_off.contains(&from) != self.cut_off.contains(&to);
            if is_apart || self.deaf == Some(to) {
                continue;
            }
            let copies = match self.unreliable {
                true => [1, 1, 1, 1, 1, 1, 0, 2][self.below(8)],
                false => 1,
            };
            let line = self.lines.entry((from, to)).or_default();
            line.extend(std::iter::repeat_n(message, copies));
        }
    }

    /// One thing happens; false if all have ended.
    fn step(&mut self) -> bool {
        let now = self.now;
        let waiting: Vec<(u32, u32)> = self
            .lines
            .iter()
            .filter(|(_, line)| !line.is_empty())
            .map(|(&ends, _)| ends)
            .collect();
        // Of the dead, what is under way still arrives.
        let pending = waiting.len() + self.news.len();
        let passes = usize::from(pending == 0 || self.delays > 0);
        let choice = self.below(pending + passes);
        if let Some(&(from, to)) = waiting.get(choice) {
            let message = self
                .lines
                .get_mut(&(from, to))
                .and_then(VecDeque::pop_front);
            if let Some(agreement) = &mut self.ranks[to as usize]
                && let Some(message) = message
                && !self.dead.contains(&to)
            {
                agreement.receive(from, message, now);
                self.post(to);
            }
        } else if choice < pending {
            let (who, whom) = self.news.swap_remove(choice - waiting.len());
            if let Some(agreement) = &mut self.ranks[who as usize]
                && !self.dead.contains(&who)
            {
                agreement.suspect(whom, true, now);
                self.post(who);
            }
        } else {
            let Some(due) = self
                .living()
                .filter_map(|(_, agreement)| agreement.due())
                .min()
            else {
                return false;
            };
            self.delays -= u32::from(pending > 0);
            // Slow networks: others may begin a ballot while messages are under way.
            self.now = self.now.max(due);
            for rank in 0..SIZE {
                if let Some(agreement) = &mut self.ranks[rank as usize]
                    && !self.dead.contains(&rank)
                {
                    for &(_, whom) in self.suspicions.iter().filter(|(who, _)| *who == rank) {
                        agreement.suspect(whom, false, self.now);
                    }
                    agreement.tick(self.now);
                    self.post(rank);
                }
            }
        }
        self.agrees();
        true
    }

    /// No two living ranks have returned different groups.
    fn agrees(&self) {
        let mut first: Option<&Ranks> = None;
        for (rank, agreement) in self.living() {
            let group = match agreement.outcome() {
                Some(Outcome::Group(group)) => {
                    assert!(group.contains(&rank));
                    group
                }
                Some(Outcome::Excluded(group)) => {
                    assert!(!group.contains(&rank));
                    group
                }
                _ => continue,
            };
            assert_eq!(group, *first.get_or_insert(group));
        }
    }

    fn run(&mut self, events: &[(u32, Event)]) {
        for step in 0..MOST_STEPS {
            for &(_, event) in events.iter().filter(|(at, _)| *at == step) {
                self.happen(event);
            }
            if !self.step() {
                return;
            }
        }
        panic!("it does not end");
    }

    fn outcomes(&self) -> Vec<(u32, Outcome)> {
        let ended = self
            .living()
            .map(|(rank, agreement)| (rank, agreement.outcome().expect("it has ended").clone()));
        ended.collect()
    }
}

/// All orders of up to three of the five ranks.
fn orders() -> Vec<Vec<u32>> {
    let mut orders = vec![vec![]];
    let mut at = 0;
    while at < orders.len() {
        if orders[at].len() < 3 {
            let before = orders[at].clone();
            let others = (0..SIZE).filter(|rank| !before.contains(rank));
            orders.extend(others.map(|rank| [&before[..], &[rank]].concat()));
        }
        at += 1;
    }
    orders
}

#[test]
fn every_order_of_up_to_three_deaths() {
    for (number, order) in (0..).zip(orders()) {
        for seed in 0..100 {
            let mut world = World::new(seed * 1000 + number, 0..SIZE);
            world.unreliable = seed % 2 == 1;
            let mut at = 0;
            let mut events = Vec::new();
            for &rank in &order {
                at += world.below(25) as u32;
                events.push((at, Event::Dies(rank)));
            }
            world.run(&events);
            for (rank, outcome) in world.outcomes() {
                let Outcome::Group(group) = &outcome else {
                    panic!("{order:?}, seed {seed}: rank {rank}: {outcome:?}");
                };
                assert!(world.living().all(|(living, _)| group.contains(&living)));
            }
        }
    }
}

#[test]
fn deaths_beside_wrong_suspicions() {
    let mut excluded = 0;
    for (number, order) in (0..).zip(orders()) {
        for seed in 0..100 {
            let mut world = World::new(seed * 1000 + number, 0..SIZE);
            world.unreliable = seed % 2 == 1;
            let mut events = Vec::new();
            for &rank in &order {
                events.push((world.below(60) as u32, Event::Dies(rank)));
            }
            for _ in 0..1 + world.below(3) {
                let (who, whom) = (world.below(5) as u32, world.below(5) as u32);
                events.push((world.below(40) as u32, Event::Suspects(who, whom)));
            }
            world.run(&events);
            let outcomes = world.outcomes();
            excluded += (outcomes.iter())
                .filter(|(_, end)| matches!(end, Outcome::Excluded(_)))
                .count();
        }
    }
    assert!(excluded > 100, "{excluded}");
}

#[test]
fn the_larger_half_of_a_network_goes_on() {
    for seed in 0..300 {
        let mut world = World::new(seed, 0..SIZE);
        world.cut_off = [0, 3].into();
        let events: Vec<_> = (0..SIZE)
            .flat_map(|a| (0..SIZE).map(move |b| (a, b)))
            .filter(|(a, b)| world.cut_off.contains(a) != world.cut_off.contains(b))
            .map(|(a, b)| (a + b, Event::Suspects(a, b)))
            .collect();
        world.run(&events);
        for (rank, outcome) in world.outcomes() {
            match world.cut_off.contains(&rank) {
                true => assert!(matches!(outcome, Outcome::Missing(_)), "{outcome:?}"),
                false => assert_eq!(outcome, Outcome::Group([1, 2, 4].into())),
            }
        }
    }
}

#[test]
fn a_rank_that_hears_nothing_does_not_keep_the_others_from_going_on() {
    for seed in 0..300 {
        let mut world = World::new(seed, 0..SIZE);
        let deaf = world.below(5) as u32;
        world.deaf = Some(deaf);
        let others = (0..SIZE).filter(|&rank| rank != deaf);
        let suspicions = others.flat_map(|rank| [(rank, deaf), (deaf, rank)]);
        let events: Vec<_> = suspicions
            .map(|(who, whom)| (rank_step(who), Event::Suspects(who, whom)))
            .collect();
        world.run(&events);
        for (rank, outcome) in world.outcomes() {
            match outcome {
                Outcome::Group(group) => {
                    assert!(rank != deaf && group.len() == 4 && !group.contains(&deaf));
                }
                other => assert!(rank == deaf, "seed {seed}, {deaf}: {rank}: {other:?}"),
            }
        }
    }
}

/// Ranks come to suspect others at different times.
fn rank_step(rank: u32) -> u32 {
    7 * rank % 5
}

#[test]
fn in_a_tie_neither_half_goes_on() {
    for seed in 0..300 {
        // Rank 4 has not made the call, and both halves suspect it.
        let mut world = World::new(seed, 0..4);
        world.cut_off = [0, 3].into();
        let mut events: Vec<_> = (0..4).map(|rank| (0, Event::Suspects(rank, 4))).collect();
        for (a, b) in [(0, 1), (0, 2), (3, 1), (3, 2)] {
            events.extend([(a, Event::Suspects(a, b)), (b, Event::Suspects(b, a))]);
        }
        world.run(&events);
        for (_, outcome) in world.outcomes() {
            assert!(matches!(outcome, Outcome::Missing(_)), "{outcome:?}");
        }
    }
}

#[test]
fn more_than_half_go_on_without_those_who_did_not_call() {
    for seed in 0..300 {
        let mut world = World::new(seed, [0, 1, 3, 4]);
        world.run(&[(5, Event::Dies(1))]);
        for (rank, outcome) in world.outcomes() {
            assert_eq!(outcome, Outcome::Group([0, 3, 4].into()), "rank {rank}");
        }
    }
}

#[test]
fn fewer_do_not_and_name_them() {
    for seed in 0..300 {
        let mut world = World::new(seed, [1, 3, 4]);
        world.run(&[(5, Event::Dies(1))]);
        for (rank, outcome) in world.outcomes() {
            let Outcome::Missing(missing) = outcome else {
                panic!("rank {rank}: {outcome:?}");
            };
            assert!(missing.contains(&2), "rank {rank}: {missing:?}");
        }
    }
}

#[test]
fn ranks_that_suspect_each_other_are_not_in_one_group() {
    for seed in 0..300 {
        let mut world = World::new(seed, 0..SIZE);
        let (who, whom) = (world.below(5) as u32, world.below(5) as u32);
        world.run(&[(0, Event::Suspects(who, whom))]);
        for (_, outcome) in world.outcomes() {
            let (Outcome::Group(group) | Outcome::Excluded(group)) = &outcome else {
                panic!("{who} suspects {whom}: {outcome:?}");
            };
            let (left, pair) = (group.len() as u32, [who, whom]);
            assert_eq!(left, SIZE - u32::from(who != whom), "{pair:?}: {group:?}");
            assert!(who == whom || !pair.iter().all(|rank| group.contains(rank)));
        }
    }
}

/// A rank that was cut off gives up, and is heard again. Rank 0 has waited for a while, and rank 1 comes later.
#[test]
fn who_has_just_come_does_not_give_up_with_others() {
    let late = 2 * PATIENCE;
    let begun = [late - PATIENCE / 2, late, Duration::ZERO];
    let new = |(rank, begun)| Agreement::new(rank, 3, begun, PATIENCE);
    let mut ranks: Vec<Agreement> = (0..).zip(begun).map(new).collect();
    for now in [PATIENCE, late] {
        said(&mut ranks[2]);
        ranks[2].tick(now);
    }
    let missing = Outcome::Missing([0, 1].into());
    assert_eq!(ranks[2].outcome(), Some(&missing));
    for (rank, message) in said(&mut ranks[2]) {
        ranks[rank as usize].receive(2, message, late);
    }
    ranks[0].tick(late);
    asks(&mut ranks, 0, &[1]);
    asks(&mut ranks, 0, &[1]);
    says(&mut ranks, 0, &[1]);
    for rank in &ranks[..2] {
        assert_eq!(rank.outcome(), Some(&Outcome::Group([0, 1].into())));
    }
}

/// All who decided may be dead by then, and the rank to which the promise was given does not hear of the decision.
#[test]
fn a_decision_is_not_learned_after_a_later_promise() {
    let now = Duration::ZERO;
    let of = |what| AgreementMessage {
        dead: Ranks::new(),
        what,
    };
    let everyone: Ranks = (0..SIZE).collect();
    let mut third = Agreement::new(3, SIZE, now, PATIENCE);
    third.receive(4, of(What::Prepare((2, 4))), now);
    third.receive(0, of(What::Decided((1, 0), everyone.clone())), now);
    assert_eq!(third.outcome(), None);
    third.receive(4, of(What::Decided((2, 4), everyone.clone())), now);
    assert_eq!(third.outcome(), Some(&Outcome::Group(everyone)));
}

/// Else a ballot whose promises all came from the dead could come back.
#[test]
fn nothing_is_heard_from_the_dead() {
    let now = Duration::ZERO;
    let mut third = Agreement::new(3, SIZE, now, PATIENCE);
    third.suspect(4, true, now);
    let message = AgreementMessage {
        dead: Ranks::new(),
        what: What::Prepare((2, 4)),
    };
    third.receive(4, message, now);
    assert!(third.next_message().is_none());
}

/// What it has to say, by receiver.
fn said(agreement: &mut Agreement) -> Vec<(u32, AgreementMessage)> {
    std::iter::from_fn(|| agreement.next_message()).collect()
}

/// Rank `from` says what it has to say to these; nobody else hears it.
fn says(ranks: &mut [Agreement], from: u32, to: &[u32]) {
    for (rank, message) in said(&mut ranks[from as usize]) {
        if to.contains(&rank) {
            ranks[rank as usize].receive(from, message, Duration::ZERO);
        }
    }
}

/// All of these promise or accept, for rank `of`.
fn asks(ranks: &mut [Agreement], of: u32, them: &[u32]) {
    says(ranks, of, them);
    for &rank in them {
        says(ranks, rank, &[of]);
    }
}

/// Else rank 0 would decide with rank 1, which has meanwhile heard that ranks 2 to 4 decided otherwise, and died.
#[test]
fn who_accepted_without_knowing_of_deaths_is_asked_again() {
    let (now, later) = (Duration::ZERO, Duration::from_secs(1));
    let new = |rank| Agreement::new(rank, SIZE, now, PATIENCE);
    let mut ranks: Vec<Agreement> = (0..SIZE).map(new).collect();
    ranks[0].tick(now);
    asks(&mut ranks, 0, &[1, 2, 3, 4]);
    asks(&mut ranks, 0, &[1]);
    for whom in [0, 1] {
        ranks[2].suspect(whom, false, now);
    }
    ranks[2].tick(later);
    asks(&mut ranks, 2, &[3, 4]);
    asks(&mut ranks, 2, &[3, 4]);
    says(&mut ranks, 2, &[1]);
    let decided = Outcome::Excluded([2, 3, 4].into());
    assert_eq!(ranks[1].outcome(), Some(&decided));
    for whom in [2, 3, 4] {
        ranks[0].suspect(whom, true, later);
    }
    assert_eq!(ranks[0].outcome(), None);
    for round in 0..20 {
        asks(&mut ranks, 0, &[1]);
        ranks[0].tick(later + REPEAT * round);
    }
    assert_eq!(ranks[0].outcome(), Some(&decided));
}

#[test]
fn the_word_of_a_rank_in_whose_ballot_it_takes_no_part_ends_nothing() {
    let gave_up = |missing: &[u32]| AgreementMessage {
        dead: [4].into(),
        what: What::GaveUp((1, 3), missing.iter().copied().collect()),
    };
    let (came, now) = (PATIENCE * 9 / 10, 2 * PATIENCE);
    let waits = |suspects: bool, missing: &[u32]| {
        let mut rank = Agreement::new(1, SIZE, came, PATIENCE);
        rank.suspect(4, true, came);
        if suspects {
            rank.suspect(3, false, came);
        }
        rank.tick(now);
        rank.receive(3, gave_up(missing), now);
        rank.outcome().is_none()
    };
    assert!(waits(true, &[0, 2]), "their connection is broken");
    assert!(waits(false, &[0, 1]), "it has not been heard");
    assert!(!waits(false, &[0, 2]));
}
