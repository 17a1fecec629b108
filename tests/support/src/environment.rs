//! The environment variables of the tests: what to test, where, and how fast the machine is.

use std::env;
use std::ffi::OsString;
use std::fmt::Display;
use std::num::NonZero;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// Marks a process as a rank of a test binary, and names its case.
pub(crate) const CASE: &str = "TRANSOM_TEST_CASE";
/// For a rank that no launcher started: its number and the number of ranks, such as `1/3`, and the folder that all
/// share.
pub(crate) const PROCESS: &str = "TRANSOM_TEST_PROCESS";
pub(crate) const FOLDER: &str = "TRANSOM_TEST_FOLDER";
pub(crate) const DEVICE: &str = "TRANSOM_DEVICE";
pub(crate) const TIME: &str = "TRANSOM_TEST_TIME";
pub(crate) const NEIGHBOURS: &str = "TRANSOM_NEIGHBOURS";
pub(crate) const DEVICES: &str = "TRANSOM_TEST_DEVICES";
pub(crate) const EVERY: &str = "TRANSOM_TEST_EVERY";
const LAUNCHER: &str = "TRANSOM_TEST_LAUNCHER";
const RANKS: &str = "TRANSOM_TEST_RANKS";
const TOGETHER: &str = "TRANSOM_TEST_TOGETHER";
const HYDRA: &str = "TRANSOM_TEST_HYDRA";
const HEAP: &str = "TRANSOM_HEAP_SECONDS";
const ORACLE: &str = "TRANSOM_ORACLE_SECONDS";
const PROGRAM: &str = "TRANSOM_ORACLE_PROGRAM";

fn text(name: &str) -> Option<String> {
    let text = env::var_os(name)?.into_string();
    Some(text.unwrap_or_else(|text| panic!("{name}={text:?} is no text")))
}

fn number<T: FromStr<Err: Display>>(name: &str) -> Option<T> {
    let text = text(name)?;
    let number = text.parse();
    Some(number.unwrap_or_else(|error| panic!("{name}={text:?} is no whole number: {error}")))
}

/// The case of this process, if it is a rank of a test binary; `None` if it is the test.
pub fn case() -> Option<String> {
    text(CASE)
}

/// The devices to test, if any are named, separated by `;` or blanks.
pub fn devices() -> Option<Vec<&'static str>> {
    let list: &'static str = text(DEVICES)?.leak();
    let devices: Vec<_> = list
        .split([';', ' ', '\t', '\n'])
        .filter(|device| !device.is_empty())
        .collect();
    assert!(!devices.is_empty(), "{DEVICES} names no device");
    Some(devices)
}

/// Of the cases over named devices, only every n-th is run, beginning with the first. This is n.
pub(crate) fn every() -> usize {
    number::<NonZero<usize>>(EVERY).map_or(1, NonZero::get)
}

/// Which ranks map each other's memory over devices with their own atomics. The default is every other pair, so that
/// both methods access the same words.
pub(crate) fn neighbours() -> String {
    text(NEIGHBOURS).unwrap_or_else(|| "some".to_owned())
}

/// Whether every other pair of ranks maps each other's memory.
pub fn some_are_neighbours() -> bool {
    neighbours() == "some"
}

/// Whether all ranks of this host map each other's memory, over devices that have neighbours.
pub fn all_are_neighbours() -> bool {
    neighbours() == "on" && is_our_launcher()
}

/// Another launcher than the test binary, with its options, such as `mpiexec.hydra -hosts n0,n1`. Ranks may then run on
/// several hosts.
pub fn launcher() -> Option<String> {
    let launcher = text(LAUNCHER)?;
    assert!(!launcher.trim().is_empty(), "{LAUNCHER} is empty");
    Some(launcher)
}

/// Whether all ranks run on this host, started by the test binary.
pub fn is_our_launcher() -> bool {
    launcher().is_none()
}

/// Each case is run once: in its largest job with at most this many ranks, or else in its smallest. This is for
/// emulated machines, which are slow.
pub fn most_ranks() -> Option<u32> {
    number(RANKS)
}

/// Cases with the same number of ranks share a job if their names begin with one of these words. `all` names all cases,
/// and `topics` all cases with a job for each topic.
pub fn together() -> Option<String> {
    text(TOGETHER)
}

/// How many times slower than an ordinary machine this one may be.
pub fn slowness() -> u32 {
    number(TIME).unwrap_or(1)
}

/// Hydra's `mpiexec`, if it is to be tested.
pub fn hydra() -> Option<OsString> {
    env::var_os(HYDRA)
}

/// How long the heap test runs its concurrent cases.
pub fn heap_time() -> Option<Duration> {
    number(HEAP).map(Duration::from_secs)
}

/// How long random programs run over each device; `forever` is a legal value.
pub fn oracle_time() -> Option<Duration> {
    match text(ORACLE)?.as_str() {
        "forever" => Some(Duration::MAX),
        _ => number(ORACLE).map(Duration::from_secs),
    }
}

/// The random program to repeat, as a failure prints it.
pub fn oracle_program() -> Option<String> {
    text(PROGRAM)
}

/// The rank of this process, as its launcher says.
pub fn own_rank() -> u32 {
    first_number(&["PMI_RANK", "PMIX_RANK", "TRANSOM_RANK"])
}

/// How many ranks the launcher has started.
pub fn job_size() -> u32 {
    first_number(&[
        "PMI_SIZE",
        "OMPI_COMM_WORLD_SIZE",
        "SLURM_STEP_NUM_TASKS",
        "TRANSOM_SIZE",
    ])
}

fn first_number(names: &[&str]) -> u32 {
    let number = names.iter().find_map(|name| number(name));
    number.unwrap_or_else(|| panic!("none of {names:?} is set"))
}

/// The number of this process among those that no launcher started, and the number of those.
pub fn own_place() -> (u32, u32) {
    let text = text(PROCESS).expect(PROCESS);
    let (rank, size) = text.split_once('/').expect("a number of how many");
    let number = |text: &str| text.parse().expect("a number");
    (number(rank), number(size))
}

/// The folder that these processes share.
pub fn own_folder() -> PathBuf {
    env::var_os(FOLDER).expect(FOLDER).into()
}

/// The device that this rank was told to use, if any.
pub fn own_device() -> String {
    text(DEVICE).unwrap_or_default()
}
