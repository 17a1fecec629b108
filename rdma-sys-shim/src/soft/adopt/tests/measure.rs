//! What it costs. `cargo test --release -- --ignored --nocapture adopt::tests::measure`

use std::time::{Duration, Instant};

use super::*;

fn median(mut times: Vec<Duration>) -> f64 {
    times.sort_unstable();
    times[times.len() / 2].as_secs_f64() * 1e6
}

fn measure(threads: &str) {
    for (len, rounds) in [(4 << 10, 2000), (64 << 10, 500), (16 << 20, 40)] {
        for offset in [0, 16] {
            let memory = Memory::anonymous(len + offset);
            fill(memory.base, len + offset, 1);
            let (mut there, mut back) = (Vec::new(), Vec::new());
            for _ in 0..rounds {
                let start = Instant::now();
                let Ok(share) = adopt_all(memory.at(offset), len) else {
                    break;
                };
                there.push(start.elapsed());
                let start = Instant::now();
                drop(share);
                back.push(start.elapsed());
            }
            if there.is_empty() {
                continue;
            }
            let line = format!(
                "{threads}, {len} bytes at page + {offset}: adopt {:.1} us, give back {:.1} us\n",
                median(there),
                median(back)
            );
            // SAFETY: the bytes are there. libtest captures what a child prints.
            unsafe { libc::write(2, line.as_ptr().cast(), line.len()) };
        }
    }
}

#[test]
#[ignore = "a measurement"]
fn adopt_and_give_back() {
    in_child(|| measure("one thread"));
    measure("several threads");
}

/// Pages with others between them, so that none joins its neighbour, until no more are adopted.
fn measure_many(threads: &str) {
    const MOST: usize = 800;
    let page = page_size();
    let memory = Memory::anonymous(2 * MOST * page);
    let mut shares = Vec::new();
    let (mut times, mut declined) = (Vec::new(), Vec::new());
    for number in 0..MOST {
        let start = Instant::now();
        let share = adopt_all(memory.at(2 * number * page), page);
        match share {
            Ok(share) => {
                times.push(start.elapsed());
                shares.push(share);
            }
            Err(_) => declined.push(start.elapsed()),
        }
    }
    let first = median(times[..8.min(times.len())].to_vec());
    let last = median(times[times.len().saturating_sub(8)..].to_vec());
    let line = format!(
        "{threads}, {} pages: {first:.1} us each at first, {last:.1} us at last; then {} are declined, \
         {:.1} us each\n",
        times.len(),
        declined.len(),
        median(declined)
    );
    // SAFETY: the bytes are there. libtest captures what a child prints.
    unsafe { libc::write(2, line.as_ptr().cast(), line.len()) };
}

#[test]
#[ignore = "a measurement"]
fn adopt_many() {
    in_child(|| measure_many("one thread"));
    measure_many("several threads");
}
