//! `examples/survive`, the real program under the real launcher: its processes are killed at any moment, and the result has
//! to be right.
//!
//! `TRANSOM_SURVIVE_ROUNDS` says how often over each device.

use std::fs::{self, File};
use std::hash::{BuildHasher as _, RandomState};
use std::path::PathBuf;
use std::thread::sleep;
use std::time::{Duration, Instant};

use transom_testing::environment;
use transom_testing::job::{Job, LIMIT, Others, launcher_for, run};
use transom_testing::launcher;
use transom_testing::programs::{Folder, program};
use transom_testing::random::Random;

transom_testing::tests! {
    any_rank_may_die_at_any_moment,
    a_rank_that_was_stopped_is_left_out,
    half_of_the_ranks_do_not_go_on_and_say_who_is_missing,
    nobody_goes_on_without_the_launcher,
}

const TASKS: &str = "3000";
/// So many that others still work when a rank is resumed.
const LONG: &str = "20000";
const RANKS: u32 = 5;

/// The devices that the environment names for tests, or else these.
fn devices(usual: &[&'static str]) -> Vec<&'static str> {
    environment::devices().unwrap_or_else(|| usual.to_vec())
}

/// What one rank calculates by itself.
fn total(tasks: &str) -> String {
    let mut command = launcher::command(1, &[]);
    let done = run(command.arg(program("survive")).arg(tasks)).expect(0);
    total_in(done.text().trim_end())
        .expect("a total")
        .to_owned()
}

/// What a rank has calculated, if the line is its result.
fn total_in(line: &str) -> Option<&str> {
    line.split_once("total ").map(|(_, total)| total)
}

/// A job whose ranks have begun. Its output is in a file.
struct Begun {
    job: Job,
    said: PathBuf,
    _folder: Folder,
}

impl Begun {
    fn new(device: &str, tasks: &str, patience: Duration) -> Self {
        let folder = Folder::new();
        let said = folder.file("said", b"");
        let output = || File::options().append(true).open(&said).expect("the file");
        let mut command = launcher_for(RANKS, device, Others::GoOn);
        command
            .env("TRANSOM_SURVIVORS_TIMEOUT", patience.as_secs().to_string())
            .arg(program("survive"))
            .arg(tasks)
            .stdout(output())
            .stderr(output());
        let job = Job::start(&mut command);
        let begun = Self {
            job,
            said,
            _folder: folder,
        };
        begun.wait_for(|said| said.matches(" begins").count() == RANKS as usize);
        begun
    }

    fn said(&self) -> String {
        fs::read_to_string(&self.said).expect("the file")
    }

    #[track_caller]
    fn wait_for(&self, condition: impl Fn(&str) -> bool) {
        let begun = Instant::now();
        while !condition(&self.said()) {
            assert!(begun.elapsed() < LIMIT, "{}", self.said());
            sleep(Duration::from_millis(2));
        }
    }

    /// The processes of ranks.
    fn ranks(&self) -> Vec<u32> {
        let mut pids = self.job.processes();
        pids.retain(|pid| {
            let program = fs::read_link(format!("/proc/{pid}/exe"));
            program.is_ok_and(|path| path.ends_with("survive"))
        });
        pids
    }

    /// Waits for the job's end. Checks that at least so many ranks have a result, and all the right one. Returns how
    /// often a rank went on.
    #[track_caller]
    fn expect(self, total: &str, least: usize, what: &str) -> usize {
        let ended = self.job.finish_within(2 * LIMIT);
        let said = fs::read_to_string(&self.said).expect("the file");
        assert!(
            ended.status.is_some(),
            "{what}: killed at the time limit: {said}"
        );
        let results: Vec<_> = said.lines().filter_map(total_in).collect();
        let is_right = results.iter().all(|result| *result == total);
        assert!(
            is_right && results.len() >= least,
            "{what}: {results:?} instead of {total}, of {least} ranks or more: {said}",
        );
        said.matches(" goes on as ").count()
    }
}

fn signal(pid: u32, signal: i32) {
    // SAFETY: kill takes two integers; the process has the mark of this job.
    unsafe { libc::kill(pid.cast_signed(), signal) };
}

fn any_rank_may_die_at_any_moment() {
    let rounds = std::env::var("TRANSOM_SURVIVE_ROUNDS");
    let rounds = rounds.map_or(3, |rounds| rounds.parse().expect("a number of rounds"));
    let total = total(TASKS);
    for device in devices(&["soft", "tcp", "soft:map=off", "soft:adversarial"]) {
        // Of another host, no death is certain.
        let most = match environment::is_our_launcher() {
            true => RANKS - 1,
            false => RANKS.div_ceil(2) - 1,
        };
        let mut went_on = 0;
        for _ in 0..rounds {
            let seed = RandomState::new().hash_one(0);
            let mut random = Random::new(seed);
            let begun = Begun::new(device, TASKS, LIMIT / 2);
            let mut ranks = begun.ranks();
            for _ in 0..random.from(1, most as usize) {
                // The next may die at once, or while the others look for each other.
                sleep(Duration::from_micros(random.below(150_000) as u64));
                let unlucky = random.below(ranks.len());
                signal(ranks.swap_remove(unlucky), libc::SIGKILL);
            }
            let what = format!("{device}, seed {seed}");
            went_on += begun.expect(&total, ranks.len(), &what);
        }
        assert!(went_on > 0, "{device}: all died after the end");
    }
}

/// Its kernel accepts everything, so nobody knows that it is dead, and it is not.
fn a_rank_that_was_stopped_is_left_out() {
    let total = total(LONG);
    for device in devices(&["soft", "tcp"]) {
        let begun = Begun::new(device, LONG, Duration::from_secs(2));
        let ranks = begun.ranks();
        signal(ranks[1], libc::SIGSTOP);
        signal(ranks[3], libc::SIGKILL);
        begun.wait_for(|said| said.matches("of 3: ").count() == 3);
        // The others are still busy.
        signal(ranks[1], libc::SIGCONT);
        begun.wait_for(|said| said.contains("this rank was left out: others go on"));
        begun.expect(&total, 3, device);
    }
}

/// It ends all ranks, also those that have gone on.
fn nobody_goes_on_without_the_launcher() {
    for goes_on_first in [false, true] {
        let mut begun = Begun::new("soft", LONG, LIMIT / 2);
        signal(begun.ranks()[2], libc::SIGKILL);
        if goes_on_first {
            begun.wait_for(|said| said.matches("of 4: ").count() == 4);
        }
        begun.job.signal(libc::SIGKILL);
        // Fails if a process is left.
        assert_eq!(begun.job.wait().code(), None);
        assert!(!begun.said().contains("total"), "{}", begun.said());
    }
}

fn half_of_the_ranks_do_not_go_on_and_say_who_is_missing() {
    for device in devices(&["soft", "tcp"]) {
        let begun = Begun::new(device, LONG, Duration::from_secs(1));
        let ranks = begun.ranks();
        signal(ranks[0], libc::SIGKILL);
        for &pid in &ranks[1..3] {
            signal(pid, libc::SIGSTOP);
        }
        begun.wait_for(|said| said.matches("too few ranks can go on: ").count() == 2);
        assert!(
            begun.said().contains("did not take part within"),
            "{device}"
        );
        for &pid in &ranks[1..3] {
            signal(pid, libc::SIGKILL);
        }
        begun.expect("", 0, device);
    }
}
