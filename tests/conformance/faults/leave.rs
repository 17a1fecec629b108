//! A rank that has done its part leaves the job while another still waits, for a third one.

use std::thread::sleep;
use std::time::Duration;

use libtest_mimic::{Failed, Trial};
use transom::raw::{Assert, Window};
use transom::{Info, Job, Result};
use transom_testing::job::{self, Launched, Others};

use crate::ops::put;

const CASES: [&str; 2] = ["completed", "notified"];
/// Far longer than it takes a waiting rank to look after the others.
const LATE: Duration = Duration::from_millis(700);

pub(crate) fn trials(device: &'static str) -> Vec<Trial> {
    let trial = |case: &'static str| {
        let name = format!("{device}/faults/leave/{case}");
        Trial::test(name, move || nobody_minds(device, case))
    };
    CASES.map(trial).into()
}

fn nobody_minds(device: &str, case: &str) -> std::result::Result<(), Failed> {
    let role = format!("faults/leave/{case}");
    let Launched { status, output, .. } = job::play(3, device, Others::GoOn, &role);
    match status.is_some_and(|status| status.success()) {
        true if output.contains("rank 0 has both") => Ok(()),
        _ => Err(format!("{status:?}\n{output}").into()),
    }
}

pub(crate) fn play(case: &str) {
    let job = Job::init().expect("a job");
    let info = Info::new().with("no_locks", "true");
    let window = Window::allocate(job.world(), 64, 8, &info).expect("a window");
    match case {
        "completed" => complete(window),
        _ => notify(&job, window),
    }
    .expect("nothing fails");
}

fn complete(window: Window) -> Result<()> {
    let all = window.group().clone();
    let me = window.rank();
    window.fence(Assert::NO_SUCCEED)?;
    if me == 0 {
        window.post(&all.include(&[1, 2])?, Assert::NONE)?;
        window.wait()?;
        tell(&window);
    } else {
        if me == 2 {
            sleep(LATE);
        }
        window.start(&all.include(&[0])?, Assert::NONE)?;
        put(&window, &[me as u8], 0, me.into())?;
        window.complete()?;
    }
    window.free()
}

fn notify(job: &Job, window: Window) -> Result<()> {
    let me = window.rank();
    window.fence(Assert::NONE)?;
    job.world().barrier()?;
    if me == 0 {
        window.wait_notify(0, 2)?;
        tell(&window);
        let error = window.wait_notify(0, 3).expect_err("nobody is left");
        assert!(error.to_string().contains("has left"), "{error}");
        return Ok(());
    }
    if me == 2 {
        sleep(LATE);
    }
    static BYTES: [u8; 3] = [0, 1, 2];
    let from = &raw const BYTES[me as usize];
    // SAFETY: one byte that never goes nor changes.
    unsafe { window.put_notify(from, 1, 0, me.into(), 0)? };
    Ok(())
}

fn tell(window: &Window) {
    let base = window.base();
    // SAFETY: two words of the window; their origins have said that they are written.
    let found = unsafe { [*base.add(8), *base.add(16)] };
    assert_eq!(found, [1, 2]);
    println!("rank 0 has both");
}
