//! Jobs that run programs: what the test asks of them, and what its ranks do.

use std::fmt;
use std::process::exit;
use std::time::{Duration, Instant};

use transom::{Job, ThreadLevel};
use transom_testing::job::{self, Others};

use crate::execute::Runner;
use crate::generate::{self, CLASSES};
use crate::model::Model;
use crate::reduce::Kept;
use crate::sabotage::Sabotage;

/// What a job does. It travels in an environment variable.
#[derive(Clone)]
pub(crate) enum Task {
    /// Programs of the seeds `first`, `first + CLASSES` and so on, until the time is over.
    Explore {
        first: u64,
        millis: u64,
    },
    Replay {
        seed: u64,
        kept: Kept,
    },
    /// As `Explore`, by ranks that do something wrong.
    Sabotage {
        how: Sabotage,
        first: u64,
        millis: u64,
    },
}

/// A job that did not end well.
pub(crate) struct Failure {
    pub(crate) seed: u64,
    /// How many rounds of the program had begun.
    pub(crate) rounds: usize,
    pub(crate) output: String,
}

/// Where a job has got to, for whoever finds it dead.
const AT: &str = "at program";
/// What it has done, at its end.
const DONE: &str = "done:";

impl fmt::Display for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Explore { first, millis } => write!(f, "explore {first} {millis}"),
            Self::Replay { seed, kept } => write!(f, "replay {}", describe(*seed, kept)),
            Self::Sabotage { how, first, millis } => write!(f, "sabotage {how:?} {first} {millis}"),
        }
    }
}

/// A program as it is replayed: the seed, and what is left of it.
pub(crate) fn describe(seed: u64, kept: &Kept) -> String {
    let join = |numbers: Vec<String>| numbers.join("+");
    let mut text = format!("seed={seed}");
    if let Some(rounds) = kept.rounds {
        text += &format!(",rounds={rounds}");
    }
    if !kept.without_epochs.is_empty() {
        let epochs = kept.without_epochs.iter().map(ToString::to_string);
        text += &format!(",epochs={}", join(epochs.collect()));
    }
    if !kept.without_accesses.is_empty() {
        let accesses = kept.without_accesses.iter().map(ToString::to_string);
        text += &format!(",accesses={}", join(accesses.collect()));
    }
    text
}

pub(crate) fn parse(text: &str) -> Option<(u64, Kept)> {
    let (mut seed, mut kept) = (None, Kept::default());
    for field in text.split(',') {
        let (name, value) = field.trim().split_once('=')?;
        let numbers = value.split('+').map(str::parse::<u32>);
        match name {
            "seed" => seed = Some(value.parse().ok()?),
            "rounds" => kept.rounds = Some(value.parse().ok()?),
            "epochs" => {
                let epochs = numbers.map(|number| number.map(|number| number as usize));
                kept.without_epochs = epochs.collect::<Result<_, _>>().ok()?;
            }
            "accesses" => kept.without_accesses = numbers.collect::<Result<_, _>>().ok()?,
            _ => return None,
        }
    }
    Some((seed?, kept))
}

/// What a job has got through.
#[derive(Default)]
pub(crate) struct Done {
    pub(crate) programs: u64,
    /// Contested places whose history the model explained.
    pub(crate) decided: u64,
    pub(crate) undecided: u64,
}

impl Done {
    /// A line of a job's output.
    fn parse(line: &str) -> Option<Self> {
        let mut numbers = line.split_once(DONE)?.1.split_whitespace();
        let mut next = || numbers.next()?.parse().ok();
        Some(Self {
            programs: next()?,
            decided: next()?,
            undecided: next()?,
        })
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.programs += other.programs;
        self.decided += other.decided;
        self.undecided += other.undecided;
    }
}

/// Runs a job to its end.
pub(crate) fn run(task: &Task, device: &str) -> Result<Done, Failure> {
    let first = match task {
        Task::Explore { first, .. } | Task::Sabotage { first, .. } => *first,
        Task::Replay { seed, .. } => *seed,
    };
    let ranks = generate::ranks_of(first);
    let launched = job::play(ranks, device, Others::End, &task.to_string());
    if launched.status.is_some_and(|status| status.success()) {
        return Ok(launched
            .output
            .lines()
            .find_map(Done::parse)
            .unwrap_or_default());
    }
    // The last place that rank 0 told.
    let mut places = launched.output.lines().filter_map(|line| {
        let mut words = line.split_once(AT)?.1.split_whitespace();
        Some((words.next()?.parse().ok()?, words.next()?.parse().ok()?))
    });
    let (seed, rounds) = places.next_back().unwrap_or((first, 0));
    let ended = match launched.status {
        Some(status) => status.to_string(),
        None => "killed at its time limit".to_owned(),
    };
    let said: Vec<_> = launched
        .output
        .lines()
        .filter(|line| !line.contains(AT))
        .collect();
    Err(Failure {
        seed,
        rounds,
        output: format!("{ranks} ranks over {device}: {ended}\n{}", said.join("\n")),
    })
}

/// One rank of a job.
pub(crate) fn rank(task: &str) {
    let task = understand(task).unwrap_or_else(|| panic!("task {task:?}"));
    let (first, deadline) = match &task {
        Task::Explore { first, millis } | Task::Sabotage { first, millis, .. } => (
            *first,
            Some(Instant::now() + Duration::from_millis(*millis)),
        ),
        Task::Replay { seed, .. } => (*seed, None),
    };
    let level = match generate::is_threaded(first) {
        true => ThreadLevel::Multiple,
        false => ThreadLevel::Serialized,
    };
    let job = match Job::init_thread(level) {
        Ok(job) => job,
        Err(error) => {
            eprintln!("joining the job failed: {error:?}");
            exit(1);
        }
    };
    let mut seed = first;
    let mut done = Done::default();
    loop {
        let kept = match &task {
            Task::Replay { kept, .. } => kept.clone(),
            Task::Explore { .. } | Task::Sabotage { .. } => Kept::default(),
        };
        let sabotage = match &task {
            Task::Sabotage { how, .. } => Some(*how),
            _ => None,
        };
        match play(&job, seed, &kept, sabotage, deadline) {
            Ok(Some(one)) => done.add(&one),
            Ok(None) => break,
            Err(what) => {
                eprintln!("program {seed}, rank {}: {what}", job.world().rank());
                exit(1);
            }
        }
        if deadline.is_none() {
            break;
        }
        seed += CLASSES;
    }
    if job.world().rank() == 0 {
        println!(
            "{DONE} {} {} {}",
            done.programs, done.decided, done.undecided
        );
    }
}

fn understand(task: &str) -> Option<Task> {
    let words: Vec<_> = task.split(' ').collect();
    Some(match words[..] {
        ["explore", first, millis] => Task::Explore {
            first: first.parse().ok()?,
            millis: millis.parse().ok()?,
        },
        ["sabotage", how, first, millis] => Task::Sabotage {
            how: Sabotage::named(how)?,
            first: first.parse().ok()?,
            millis: millis.parse().ok()?,
        },
        ["replay", program] => {
            let (seed, kept) = parse(program)?;
            Task::Replay { seed, kept }
        }
        _ => return None,
    })
}

/// Collective. Runs one program; `None`: the time is over. Rank 0 decides, and judges.
fn play(
    job: &Job,
    seed: u64,
    kept: &Kept,
    sabotage: Option<Sabotage>,
    deadline: Option<Instant>,
) -> Result<Option<Done>, String> {
    let world = job.world();
    let goes_on = |verdict: bool| -> Result<bool, String> {
        let mut verdict = [u8::from(verdict)];
        let told = world.bcast(&mut verdict, 0);
        told.map_err(|error| format!("bcast: {error:?}"))?;
        Ok(verdict[0] == 1)
    };
    if !goes_on(deadline.is_none_or(|deadline| Instant::now() < deadline))? {
        return Ok(None);
    }
    let mut program = generate::program(seed);
    program.reduce(kept);
    let is_judge = world.rank() == 0;
    if is_judge {
        println!("{AT} {seed} 0");
    }
    let mut runner = Runner::new(job, &program, sabotage)?;
    let mut model = Model::new(&program);
    for (number, round) in program.rounds.iter().enumerate() {
        if is_judge {
            println!("{AT} {seed} {}", number + 1);
        }
        if let Some(seen) = runner.round(round)? {
            model
                .judge(round, &seen)
                .map_err(|what| format!("round {}: {what}", number + 1))?;
        }
        // The others wait here until the judge is content.
        goes_on(true)?;
    }
    runner.close()?;
    Ok(Some(Done {
        programs: 1,
        decided: model.decided,
        undecided: model.undecided,
    }))
}
