//! Which ranks go on after a death: one group on which all who go on agree. A state machine without I/O and without a
//! clock: messages, deaths and the time are arguments.
//!
//! **Who goes on.** A group may go on if it is more than half of the communicator, or if all ranks outside it are known
//! to be dead. Known dead: the kernel of its host or the launcher has seen the end of the process. A rank that does
//! not answer is only suspected. So if the network splits in two, the larger half goes on and the other gets an error;
//! in a tie, neither goes on.
//!
//! **Ballots.** This is Paxos, whose value is the group. A rank that finds itself the first that it does not suspect
//! begins a ballot: all ranks promise to ignore earlier ballots and tell whom they suspect. If nobody is missing, it
//! proposes a group of those who promised, or the group of the latest ballot that any of them accepted. Once a quorum
//! has accepted, the group is decided, and all are told. Ranks that suspect each other cannot be in one group: whoever
//! is in most such pairs is left out. If a ballot does not end, others begin one, the later the higher their rank.
//!
//! **Quorums.** A quorum of promises or acceptances is more than half of the communicator, or everybody but the ranks
//! known to be dead. Two quorums of the first kind have a rank in common. A quorum of the second kind contains all who
//! live, so it has a rank in common with whoever knows of an earlier decision and still lives. This needs three rules.
//! A rank learns a decision only if it has promised no later ballot, so it cannot learn one that it failed to report.
//! A rank that has returned still promises and accepts. Nothing is heard from the dead, and an acceptance counts only
//! from a rank that knows of all deaths that the rank of the ballot knows: it follows no ballot of a dead rank any
//! more. Deaths travel with every message, so that it knows when it is asked again. Hence no two *living* ranks ever
//! have different groups. (What ranks decided that are all dead now, nobody knows, and it does not bind the rest.)
//!
//! **Exclusion.** A rank that lives and learns of a group without it gets an error. A rank that gave up at its time limit
//! is silent from then on, as if it were dead. A group that was proposed before may name it, like one that dies later.
//!
//! **Lost messages.** The rank of a ballot repeats its question to all until the ballot has ended, so messages may be lost
//! or come twice. The repetitions also tell the others that the ballot is under way. Who does not hear of the decision
//! begins a ballot, in which the others report it. A rank takes no part in ballots of ranks that it suspects: one that
//! still sends, but hears nothing, would keep the others from theirs.
//!
//! **Its end.** After `patience`, the rank of the ballot suspects those who have not answered: they did not make the call,
//! are stopped, or are on the other side of a broken network. If the rest may not go on, it waits for them as long
//! again. A rank returns by then at the latest, with an error that names those whose answer is missing. It tells the
//! others. Those that take part in its ballot return too, if they have waited for `patience`.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

#[cfg(test)]
mod model;

pub(super) type Ranks = BTreeSet<u32>;

/// Higher ones are later. The second number is the rank that began it, so each ballot is of one rank.
pub(super) type Ballot = (u64, u32);

/// How long a rank waits for the ballot of another, for each rank before it that it does not suspect.
const RETRY: Duration = Duration::from_millis(100);

/// The time between two repetitions of a question.
const REPEAT: Duration = Duration::from_millis(40);

/// What a rank sends to another. Whoever sends it also tells whom it knows to be dead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AgreementMessage {
    pub(super) dead: Ranks,
    pub(super) what: What,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// Asks for a promise.
    Prepare(Ballot),
    /// To ignore earlier ballots.
    Promise {
        ballot: Ballot,
        suspects: Ranks,
        accepted: Option<(Ballot, Ranks)>,
    },
    /// The ballot is earlier than one that was promised.
    Outdated {
        promised: Ballot,
    },
    Propose(Ballot, Ranks),
    Accepted(Ballot),
    Decided(Ballot, Ranks),
    /// The ballot's rank gave up, for want of these ranks.
    GaveUp(Ballot, Ranks),
}

/// How the agreement ended for this rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It goes on, in this group.
    Group(Ranks),
    /// This group goes on without it.
    Excluded(Ranks),
    /// Time is up; these ranks did not answer.
    Missing(Ranks),
}

/// One rank's view of an agreement.
pub(super) struct Agreement {
    me: u32,
    size: u32,
    /// When those who have not answered are suspected.
    silence_at: Duration,
    has_lost_patience: bool,
    limit: Duration,
    /// Includes the dead.
    suspects: Ranks,
    dead: Ranks,
    promised: Ballot,
    accepted: Option<(Ballot, Ranks)>,
    /// This rank's latest ballot, while it is under way.
    own: Option<Own>,
    /// When this rank begins a ballot, unless it hears of another.
    retry_at: Duration,
    /// When this rank repeats the question of its ballot.
    repeat_at: Duration,
    outcome: Option<Outcome>,
    outbox: VecDeque<(u32, AgreementMessage)>,
}

struct Own {
    ballot: Ballot,
    /// Whom each rank that promised suspects, and what it accepted.
    promises: BTreeMap<u32, (Ranks, Option<(Ballot, Ranks)>)>,
    /// The group, once it is proposed, and who accepted it.
    proposed: Option<(Ranks, Ranks)>,
}

impl Agreement {
    /// Rank `me` of `size` begins at time `now`. It suspects those who have not answered `patience` later, and gives
    /// up when that time has passed twice.
    pub(super) fn new(me: u32, size: u32, now: Duration, patience: Duration) -> Self {
        Self {
            me,
            size,
            silence_at: now + patience,
            has_lost_patience: false,
            limit: now + 2 * patience,
            suspects: Ranks::new(),
            dead: Ranks::new(),
            promised: (0, 0),
            accepted: None,
            own: None,
            retry_at: now + RETRY * me,
            repeat_at: now,
            outcome: None,
            outbox: VecDeque::new(),
        }
    }

    /// How it ended, if it has.
    pub(super) fn outcome(&self) -> Option<&Outcome> {
        self.outcome.as_ref()
    }

    /// The next message to send, and to whom.
    pub(super) fn next_message(&mut self) -> Option<(u32, AgreementMessage)> {
        self.outbox.pop_front()
    }

    /// When [`Self::tick`] has to be called at the latest; `None` once it has ended.
    pub(super) fn due(&self) -> Option<Duration> {
        let next = match &self.own {
            None => self.retry_at,
            Some(_) => self.repeat_at,
        };
        (self.outcome.is_none()).then(|| self.gives_up_at().min(next))
    }

    /// `rank` does not answer, or (`is_dead`) its process is known to have ended.
    pub(super) fn suspect(&mut self, rank: u32, is_dead: bool, now: Duration) {
        if rank == self.me || self.is_silent() {
            return;
        }
        // Callers repeat what they know. That must not end the wait for another's ballot.
        let is_known = self.suspects.contains(&rank) && (!is_dead || self.dead.contains(&rank));
        if is_known {
            return;
        }
        self.suspects.insert(rank);
        if is_dead {
            self.hear_of_deaths(&[rank].into());
        }
        self.retry_at = self.retry_at.min(now + RETRY * self.before());
        self.advance();
    }

    /// Time has passed.
    pub(super) fn tick(&mut self, now: Duration) {
        if self.outcome.is_some() {
            return;
        }
        let is_first = now >= self.silence_at && !self.has_lost_patience;
        if now >= self.silence_at {
            self.has_lost_patience = true;
            self.suspect_the_silent();
        }
        // After a long pause, the rest may be able to go on.
        if now >= self.gives_up_at() && !is_first {
            let missing = self.missing();
            if let Some(own) = &self.own {
                self.send_to_others(&What::GaveUp(own.ballot, missing.clone()));
            }
            self.outcome = Some(Outcome::Missing(missing));
        } else if self.own.is_some() {
            if now >= self.repeat_at {
                self.repeat_at = now + REPEAT;
                self.ask();
            }
        } else if now >= self.retry_at {
            self.begin(now);
        }
    }

    /// The rank of the ballot knows who is missing, and tells the others first.
    fn gives_up_at(&self) -> Duration {
        match self.own {
            Some(_) => self.limit,
            None => self.limit + RETRY,
        }
    }

    /// Suspects those who have not answered this rank's question.
    fn suspect_the_silent(&mut self) {
        if self.own.as_ref().is_some_and(|own| own.proposed.is_none()) {
            self.suspects.extend(self.missing());
            self.advance();
        }
    }

    /// Asks all for what this rank's ballot needs next.
    fn ask(&mut self) {
        let Some(own) = &self.own else { return };
        let question = match &own.proposed {
            None => What::Prepare(own.ballot),
            Some((group, _)) => What::Propose(own.ballot, group.clone()),
        };
        self.send_to_others(&question);
    }

    /// A message of rank `from` has arrived. May be called after the end too: others may still need an answer.
    pub(super) fn receive(&mut self, from: u32, message: AgreementMessage, now: Duration) {
        if self.is_silent() || self.dead.contains(&from) || message.dead.contains(&self.me) {
            return;
        }
        self.hear_of_deaths(&message.dead);
        match message.what {
            What::Prepare(_) | What::Propose(..) if self.suspects.contains(&from) => {}
            What::Prepare(ballot) | What::Propose(ballot, _) if ballot < self.promised => {
                let promised = self.promised;
                self.send(from, What::Outdated { promised });
            }
            What::Prepare(ballot) => {
                self.hear(ballot, now);
                let (suspects, accepted) = (self.suspects.clone(), self.accepted.clone());
                self.send(
                    from,
                    What::Promise {
                        ballot,
                        suspects,
                        accepted,
                    },
                );
            }
            What::Promise {
                ballot,
                suspects,
                accepted,
            } => {
                if let Some(own) = self.own.as_mut().filter(|own| own.ballot == ballot) {
                    own.promises.insert(from, (suspects, accepted));
                }
            }
            What::Outdated { promised } => {
                if self.own.as_ref().is_some_and(|own| own.ballot < promised) {
                    self.promised = self.promised.max(promised);
                    self.own = None;
                    self.retry_at = now + RETRY * (1 + self.before());
                }
            }
            What::Propose(ballot, group) => {
                self.hear(ballot, now);
                self.accepted = Some((ballot, group));
                self.send(from, What::Accepted(ballot));
            }
            What::Accepted(ballot) => {
                let knows_as_much = self.dead.is_subset(&message.dead);
                if let Some(own) = self.own.as_mut().filter(|own| own.ballot == ballot)
                    && let Some((_, acceptors)) = &mut own.proposed
                    && knows_as_much
                {
                    acceptors.insert(from);
                }
            }
            What::Decided(ballot, group) if ballot >= self.promised => {
                self.hear(ballot, now);
                self.learn(ballot, group);
            }
            What::GaveUp(ballot, missing) if self.outcome.is_none() => {
                let takes_part = ballot >= self.promised
                    && !self.suspects.contains(&from)
                    && !missing.contains(&self.me);
                if takes_part && now >= self.silence_at {
                    self.outcome = Some(Outcome::Missing(missing));
                } else {
                    // Others may come yet, and go on with this rank.
                    if let Some(own) = &mut self.own {
                        own.promises.remove(&from);
                    }
                    self.suspect(from, false, now);
                }
            }
            What::Decided(..) | What::GaveUp(..) => {}
        }
        self.advance();
    }

    /// An acceptance by a rank that knows less says nothing: that rank may still follow a ballot of a dead one.
    fn hear_of_deaths(&mut self, dead: &Ranks) {
        if dead.is_subset(&self.dead) {
            return;
        }
        self.suspects.extend(dead);
        self.dead.extend(dead);
        if let Some(own) = &mut self.own
            && let Some((_, acceptors)) = &mut own.proposed
        {
            *acceptors = [self.me].into();
            self.ask();
        }
    }

    /// Who gave up says and hears nothing more.
    fn is_silent(&self) -> bool {
        matches!(self.outcome, Some(Outcome::Missing(_)))
    }

    /// How many ranks are to begin a ballot before this one.
    fn before(&self) -> u32 {
        (0..self.me)
            .filter(|rank| !self.suspects.contains(rank))
            .count() as u32
    }

    /// Who has not answered this rank's question, as far as it has one, and is not known to be dead.
    pub(super) fn unanswered(&self) -> Ranks {
        let Some(own) = &self.own else {
            return Ranks::new();
        };
        match &own.proposed {
            None => self.missing(),
            Some((_, acceptors)) => {
                let is_open = |rank: &u32| !acceptors.contains(rank) && !self.dead.contains(rank);
                (0..self.size).filter(is_open).collect()
            }
        }
    }

    fn missing(&self) -> Ranks {
        let answered = |rank: &u32| {
            *rank == self.me
                || self.dead.contains(rank)
                || self
                    .own
                    .as_ref()
                    .is_some_and(|own| own.promises.contains_key(rank))
        };
        (0..self.size).filter(|rank| !answered(rank)).collect()
    }

    fn hear(&mut self, ballot: Ballot, now: Duration) {
        if ballot > self.promised {
            self.own = None;
        }
        self.promised = ballot;
        self.retry_at = now + RETRY * (1 + self.before());
    }

    fn begin(&mut self, now: Duration) {
        let ballot = (self.promised.0.saturating_add(1), self.me);
        self.promised = ballot;
        self.repeat_at = now + REPEAT;
        let ours = (self.suspects.clone(), self.accepted.clone());
        self.own = Some(Own {
            ballot,
            promises: [(self.me, ours)].into(),
            proposed: None,
        });
        self.ask();
        self.advance();
    }

    /// Whether two such sets of ranks never decide differently, and a group of them may go on.
    fn is_quorum(&self, ranks: &Ranks) -> bool {
        ranks.len() as u32 > self.size / 2
            || (0..self.size).all(|rank| ranks.contains(&rank) || self.dead.contains(&rank))
    }

    /// Takes this rank's ballot as far as the answers allow.
    fn advance(&mut self) {
        let Some(own) = &self.own else { return };
        let ballot = own.ballot;
        match &own.proposed {
            None => {
                let answered: Ranks = own.promises.keys().copied().collect();
                let waits = (0..self.size)
                    .any(|rank| !answered.contains(&rank) && !self.suspects.contains(&rank));
                if waits || !self.is_quorum(&answered) {
                    return;
                }
                let earlier = own
                    .promises
                    .values()
                    .filter_map(|(_, accepted)| accepted.as_ref());
                let group = match earlier.max_by_key(|(ballot, _)| *ballot) {
                    Some((_, group)) => group.clone(),
                    None => self.compatible(own),
                };
                if !self.is_quorum(&group) && own.promises.values().all(|(_, old)| old.is_none()) {
                    return;
                }
                self.accepted = Some((ballot, group.clone()));
                self.own.as_mut().expect("as above").proposed = Some((group, [self.me].into()));
                self.ask();
                self.advance();
            }
            Some((group, acceptors)) if self.is_quorum(acceptors) => {
                let group = group.clone();
                self.own = None;
                self.send_to_others(&What::Decided(ballot, group.clone()));
                self.learn(ballot, group);
            }
            Some(_) => {}
        }
    }

    /// Those who promised, live and do not suspect each other.
    fn compatible(&self, own: &Own) -> Ranks {
        let mut group: Ranks = own.promises.keys().copied().collect();
        group.retain(|rank| !self.dead.contains(rank));
        let suspects = |a: u32, b: u32| match a == self.me {
            true => self.suspects.contains(&b),
            false => own.promises[&a].0.contains(&b),
        };
        loop {
            let pairs = |a: u32| {
                let others = group.iter().filter(|&&b| suspects(a, b) || suspects(b, a));
                others.count()
            };
            // Of equals, the last.
            match group.iter().map(|&rank| (pairs(rank), rank)).max() {
                Some((1.., rank)) => group.remove(&rank),
                _ => return group,
            };
        }
    }

    fn learn(&mut self, ballot: Ballot, group: Ranks) {
        self.accepted = Some((ballot, group.clone()));
        if self.outcome.is_none() {
            self.outcome = Some(match group.contains(&self.me) {
                true => Outcome::Group(group),
                false => Outcome::Excluded(group),
            });
        }
    }

    fn send(&mut self, to: u32, what: What) {
        let dead = self.dead.clone();
        self.outbox.push_back((to, AgreementMessage { dead, what }));
    }

    fn send_to_others(&mut self, what: &What) {
        for rank in 0..self.size {
            if rank != self.me && !self.dead.contains(&rank) {
                self.send(rank, what.clone());
            }
        }
    }
}
