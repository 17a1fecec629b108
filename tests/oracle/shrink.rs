//! Narrowing a failure down: what can be left out of a program that still fails?

use std::time::{Duration, Instant};

use crate::generate;
use crate::play::{self, Failure, Task, describe};
use crate::reduce::Kept;

/// For how long a failure is narrowed down.
const LIMIT: Duration = Duration::from_secs(40);
/// How often a program has to pass before it counts as one that does: failures depend on time.
const TRIES: usize = 4;

struct Search<'a> {
    device: &'a str,
    seed: u64,
    deadline: Instant,
    best: Kept,
    output: String,
    /// Whether it has failed again at all.
    repeats: bool,
}

/// Says what failed, and how to see the smallest program that still does.
pub(crate) fn report(failure: Failure, device: &str) -> String {
    let Failure {
        seed,
        rounds,
        output,
    } = failure;
    let mut search = Search {
        device,
        seed,
        deadline: Instant::now() + LIMIT,
        best: Kept {
            rounds: (rounds > 0).then_some(rounds),
            ..Kept::default()
        },
        output,
        repeats: false,
    };
    let first = search.best.clone();
    if search.fails(first) {
        search.drop_epochs();
        search.drop_accesses();
    }
    let again = match search.repeats {
        true => "",
        false => "(It passed when it was tried again: it depends on time.)\n",
    };
    let mut program = generate::program(seed);
    program.reduce(&search.best);
    format!(
        "program {seed} failed\n{}\n{again}What is left of it:\n{program}\nReplay it with\n    TRANSOM_TEST_DEVICES='{device}' \
         TRANSOM_ORACLE_PROGRAM='{}' cargo test --test oracle\n",
        search.output,
        describe(seed, &search.best)
    )
}

impl Search<'_> {
    /// Whether the program still fails; then it is the best so far.
    fn fails(&mut self, kept: Kept) -> bool {
        for _ in 0..TRIES {
            if Instant::now() > self.deadline {
                return false;
            }
            let task = Task::Replay {
                seed: self.seed,
                kept: kept.clone(),
            };
            if let Err(failure) = play::run(&task, self.device) {
                self.best = kept;
                self.output = failure.output;
                self.repeats = true;
                return true;
            }
        }
        false
    }

    fn drop_epochs(&mut self) {
        let mut program = generate::program(self.seed);
        program.reduce(&self.best);
        let epochs = program.rounds.iter().flat_map(|round| &round.epochs);
        let numbers: Vec<_> = epochs.map(|epoch| epoch.number).collect();
        for number in numbers {
            let mut kept = self.best.clone();
            kept.without_epochs.insert(number);
            self.fails(kept);
        }
    }

    /// Leaves out ever smaller parts of the accesses.
    fn drop_accesses(&mut self) {
        let mut part = usize::MAX;
        while part > 1 {
            let mut program = generate::program(self.seed);
            program.reduce(&self.best);
            let left: Vec<u32> = program.accesses().map(|access| access.id).collect();
            part = (part.min(left.len()) / 2).max(1);
            for numbers in left.chunks(part) {
                let mut kept = self.best.clone();
                kept.without_accesses.extend(numbers);
                self.fails(kept);
            }
        }
    }
}
