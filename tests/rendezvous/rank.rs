//! What this binary plays as a rank.

use std::process::exit;

use transom::raw::{Assert, Window};
use transom::{ErrorClass, Info, Job, Op, Result};
use transom_launch::start;

type Outcome = std::result::Result<(), Box<dyn std::error::Error>>;

pub(crate) fn play(role: &str) {
    let play: fn() -> Outcome = match role {
        "ring" => ring,
        "abort" => abort,
        "go_on" => go_on,
        "leave" => leave,
        "twice" => twice,
        "start" => start,
        other => panic!("no role {other:?}"),
    };
    // For those who wait until this rank is about to look for the others.
    println!("begins");
    if let Err(error) = play() {
        eprintln!("{error}");
        exit(1);
    }
}

/// Each rank puts its number into the next one's window, and reads what the one before has put.
fn ring() -> Outcome {
    let job = Job::init()?;
    put_around(&job)?;
    let world = job.world();
    println!("rank {} of {}", world.rank(), world.size());
    Ok(job.finish()?)
}

fn put_around(job: &Job) -> Outcome {
    let world = job.world();
    let (rank, size) = (world.rank(), world.size());
    let window = Window::allocate(world, 8, 8, &Info::new())?;
    let (next, before) = ((rank + 1) % size, (rank + size - 1) % size);
    let mine = u64::from(rank) + 1;
    window.fence(Assert::NONE)?;
    // SAFETY: the number outlives the fence below, and nothing changes it.
    unsafe { window.put((&raw const mine).cast(), 8, next, 0)? };
    window.fence(Assert::NO_SUCCEED)?;
    // SAFETY: 8 bytes of the window, which nobody changes any more.
    let found = unsafe { window.base().cast::<u64>().read() };
    if found != u64::from(before) + 1 {
        return Err(format!("rank {rank} found {found}").into());
    }
    Ok(window.free()?)
}

/// Rank 0 aborts; the others hear of it where they wait.
fn abort() -> Outcome {
    let job = Job::init()?;
    put_around(&job)?;
    if job.world().rank() == 0 {
        job.abort(7, "enough");
        exit(7);
    }
    job.wait_until(None, || false)?;
    Ok(())
}

/// Rank 0 aborts. No launcher ends the ranks, so each makes one call after the other.
fn go_on() -> Outcome {
    let job = Job::init()?;
    let world = job.world();
    let new = || Window::allocate(world, 8, 8, &Info::new());
    let [window, freed] = [new()?, new()?];
    let mut typed = transom::Window::<u64>::allocate(world, 1)?;
    if world.rank() == 0 {
        job.abort(7, "enough");
    }
    let calls: [(&str, Result<()>); 11] = [
        ("barrier", world.barrier()),
        ("allreduce", world.allreduce(&[1_u64], Op::Sum).map(drop)),
        ("allgather", world.allgather(&[1_u64]).map(drop)),
        ("bcast", world.bcast(&mut [1_u64], 0)),
        ("agree", world.agree(Ok::<_, &str>(())).map(drop)),
        ("dup", world.dup().map(drop)),
        ("split", world.split(Some(0), 0).map(drop)),
        ("allocate", new().map(drop)),
        ("fence", window.fence(Assert::NONE)),
        ("free", freed.free()),
        ("open", typed.open().map(drop)),
    ];
    for (call, result) in calls {
        match result {
            Err(error) if error.class() == ErrorClass::ProcAborted => println!("{error}"),
            other => println!("{call} returned {other:?}"),
        }
    }
    Ok(())
}

/// Meets the others, and tells them nothing.
fn leave() -> Outcome {
    assert_eq!(start::join()?.name(), "rendezvous");
    Ok(())
}

/// Whoever is told twice in a row where to meet: two jobs, one after the other.
fn twice() -> Outcome {
    let met = start::join()?;
    assert_eq!(met.name(), "rendezvous");
    met.allgather(b"once").map_err(|error| error.to_string())?;
    drop(met);
    ring()
}

/// Says what it makes of its environment.
fn start() -> Outcome {
    println!("{}", start::join()?.name());
    Ok(())
}
