//! Arrays in files: saved and loaded by other ranks, files that are none, and ranks that fail.

use std::fmt::Debug;
use std::fs;
use std::path::{Path, PathBuf};

use bytemuck::{Pod, Zeroable};
use tempfile::TempDir;
use transom::{Communicator, Element, Job};
use transom_collections::Distribution::{Block, BlockCyclic, Cyclic};
use transom_collections::{DistArray, Distribution, Error, Result};

use crate::{Scenario, scenarios};

pub(crate) fn scenarios() -> Vec<Scenario> {
    let mut all = scenarios![
        saved_by_some_and_loaded_by_others: [1, 3, 5],
        files_that_are_refused: [1, 3],
        one_rank_cannot_write: [3],
        ranks_that_name_other_files: [2],
    ];
    let dies = Scenario::new("a_rank_dies_before_saving", &[3], a_rank_dies_before_saving);
    all.push(dies.exits(9));
    all
}

/// Of rank 0, which removes it, and known to all.
struct Folder {
    path: PathBuf,
    _made: Option<TempDir>,
}

impl Folder {
    fn new(comm: &Communicator) -> Result<Self> {
        let made = (comm.rank() == 0).then(|| TempDir::new().unwrap());
        let name = made.as_ref().map(|made| made.path().to_str().unwrap());
        let names = comm.allgatherv(name.unwrap_or_default().as_bytes())?;
        Ok(Self {
            path: String::from_utf8(names[0].clone()).unwrap().into(),
            _made: made,
        })
    }

    /// Collective. Keeps the folder until all have done with it.
    fn free(self, comm: &Communicator) -> Result<()> {
        Ok(comm.barrier()?)
    }

    /// The names in it, in order.
    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.path).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

/// Of twelve bytes, no whole words.
#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
#[repr(C)]
struct Point {
    number: u32,
    at: [f32; 2],
}

fn saved_by_some_and_loaded_by_others(job: &Job) -> Result<()> {
    let world = job.world();
    let folder = Folder::new(world)?;
    let path = folder.path.join("array");
    // The second is longer than a buffer on one rank.
    for (len, distribution, other) in [
        (1000, BlockCyclic(7), Cyclic),
        (100_000, Block, BlockCyclic(5000)),
        (2, Cyclic, BlockCyclic(2)),
        (0, Block, Block),
    ] {
        let point = |index: usize| Point {
            number: index as u32,
            at: [0.5, index as f32],
        };
        save_and_load(job, &path, len, [distribution, other], point)?;
        save_and_load(job, &path, len, [other, distribution], |index| index as u64)?;
    }
    assert_eq!(folder.names(), ["array"]);
    folder.free(world)
}

fn save_and_load<T: Element + PartialEq + Debug>(
    job: &Job,
    path: &Path,
    len: usize,
    [distribution, other]: [Distribution; 2],
    of: impl Fn(usize) -> T,
) -> Result<()> {
    let world = job.world();
    let expected: Vec<T> = (0..len).map(&of).collect();
    let array = DistArray::from_fn(world, len, distribution, &of)?;
    array.save(path)?;
    array.free()?;
    let array = DistArray::<T>::from_file(world, path, other)?;
    assert_eq!(array.distribution(), other);
    assert_eq!(array.to_vec()?, expected);
    array.free()?;
    // All but rank 0, and then each alone.
    let others = world.split((world.rank() > 0).then_some(0), 0)?;
    for comm in [others, Some(job.alone()?)].iter().flatten() {
        let array = DistArray::<T>::from_file(comm, path, other)?;
        assert_eq!(array.to_vec()?, expected);
        array.free()?;
    }
    world.barrier()?;
    Ok(())
}

/// The same error on every rank: its text.
fn refused<R>(comm: &Communicator, done: Result<R>, path: &Path) -> Result<String> {
    let Err(error @ Error::File { .. }) = done.map(drop) else {
        panic!("{path:?}: no error of a file");
    };
    let text = error.to_string();
    assert!(text.contains(path.to_str().unwrap()), "{text}");
    for theirs in comm.allgatherv(text.as_bytes())? {
        assert_eq!(String::from_utf8(theirs).unwrap(), text);
    }
    Ok(text)
}

fn files_that_are_refused(job: &Job) -> Result<()> {
    let world = job.world();
    let first = world.rank() == 0;
    let folder = Folder::new(world)?;
    let path = folder.path.join("array");
    let array = DistArray::from_fn(world, 1000, Block, |index| index as u64)?;
    array.save(&path)?;
    let whole = fs::read(&path).unwrap();
    let read = |bytes: Vec<u8>, said: &str| -> Result<()> {
        world.barrier()?;
        if first {
            fs::write(&path, bytes).unwrap();
        }
        world.barrier()?;
        let read = DistArray::<u64>::from_file(world, &path, Block);
        let text = refused(world, read, &path)?;
        assert!(text.contains(said), "{text}");
        Ok(())
    };
    let changed = |at: usize| {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x40;
        bytes
    };
    read(
        Vec::new(),
        "rank 0: it is not the file of an array: it has 0 bytes",
    )?;
    read(vec![b'x'; 10_000], "rank 0: it is not the file of an array")?;
    read(
        whole[..whole.len() - 1].to_vec(),
        "not those of 1000 elements",
    )?;
    read([&whole[..], &[0]].concat(), "not those of 1000 elements")?;
    read(changed(8), "rank 0: it has version 65, and 1 is known here")?;
    read(changed(24), "not those of 936 elements")?;
    read(changed(31), "elements")?;
    read(changed(whole.len() - 1), "damaged")?;
    read(changed(32), "damaged")?;
    if first {
        fs::write(&path, &whole).unwrap();
    }
    world.barrier()?;
    let text = refused(
        world,
        DistArray::<f64>::from_file(world, &path, Block),
        &path,
    )?;
    let said = "rank 0: it has elements of type u64 of 8 bytes, not f64 of 8 bytes";
    assert!(text.ends_with(said), "{text}");
    let missing = folder.path.join("missing");
    let text = refused(
        world,
        DistArray::<u64>::from_file(world, &missing, Block),
        &missing,
    )?;
    assert!(text.contains("rank 0: No such file"), "{text}");
    // Files that cannot be written, where an older one stays.
    let nowhere = missing.join("array");
    refused(world, array.save(&nowhere), &nowhere)?;
    let text = refused(world, array.save(&folder.path), &folder.path)?;
    assert!(text.contains("rank 0: "), "{text}");
    array.free()?;
    // The file was good all the time, and nothing is left beside it.
    let array = DistArray::<u64>::from_file(world, &path, Block)?;
    assert_eq!(array.get(999)?, 999);
    assert_eq!(folder.names(), ["array"]);
    array.free()?;
    folder.free(world)
}

/// From now on, this process's files have at most so many bytes.
fn limit_files(bytes: u64) {
    let limit = libc::rlimit {
        rlim_cur: bytes,
        rlim_max: libc::RLIM_INFINITY,
    };
    // SAFETY: neither call has anything to do with memory but the limit, which lives.
    unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
        assert_eq!(libc::setrlimit(libc::RLIMIT_FSIZE, &limit), 0);
    }
}

fn one_rank_cannot_write(job: &Job) -> Result<()> {
    let world = job.world();
    let folder = Folder::new(world)?;
    let path = folder.path.join("array");
    let mut array = DistArray::from_fn(world, 30_000, Cyclic, |index| index as u64)?;
    array.save(&path)?;
    array.fill(1)?;
    if world.rank() == 1 {
        limit_files(100_000);
    }
    let text = refused(world, array.save(&path), &path)?;
    assert!(text.contains("rank 1: File too large"), "{text}");
    assert_eq!(folder.names(), ["array"]);
    world.barrier()?;
    // Nothing hangs, and nothing is lost: neither the old file nor the array.
    assert_eq!(array.to_vec()?, [1; 30_000]);
    array.free()?;
    if world.rank() == 1 {
        limit_files(libc::RLIM_INFINITY);
    }
    let array = DistArray::<u64>::from_file(world, &path, Block)?;
    assert_eq!(array.get(29_999)?, 29_999);
    array.save(&path)?;
    array.free()?;
    folder.free(world)
}

fn ranks_that_name_other_files(job: &Job) -> Result<()> {
    let world = job.world();
    let folder = Folder::new(world)?;
    let path = folder.path.join(["one", "other"][world.rank() as usize]);
    let array = DistArray::from_fn(world, 10, Block, |index| index)?;
    let both = [
        array.save(&path),
        DistArray::<usize>::from_file(world, &path, Block).map(drop),
    ];
    for error in both.map(Result::unwrap_err) {
        assert!(matches!(error, Error::RanksDiffer { .. }), "{error}");
    }
    assert_eq!(folder.names(), [""; 0]);
    // One file, and two distributions.
    let path = folder.path.join("array");
    array.save(&path)?;
    let distribution = [Block, Cyclic][world.rank() as usize];
    let read = DistArray::<usize>::from_file(world, &path, distribution);
    let error = read.map(drop).unwrap_err();
    assert!(matches!(error, Error::RanksDiffer { .. }), "{error}");
    array.free()?;
    folder.free(world)
}

fn a_rank_dies_before_saving(job: &Job) -> Result<()> {
    let world = job.world();
    let folder = Folder::new(world)?;
    let path = folder.path.join("array");
    let mut array = DistArray::from_fn(world, 1000, Cyclic, |index| index)?;
    array.save(&path)?;
    array.fill(3)?;
    if world.rank() == 2 {
        std::process::exit(9);
    }
    let error = array.save(&path).unwrap_err();
    assert!(matches!(error, Error::Transom(_)), "{error}");
    let survivors = world.survivors()?.communicator;
    let array = DistArray::<usize>::from_file(&survivors, &path, Block)?;
    assert_eq!(array.get(999)?, 999);
    assert_eq!(folder.names(), ["array"]);
    array.free()?;
    folder.free(&survivors)
}
