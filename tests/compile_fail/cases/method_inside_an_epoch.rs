//! A method of the value that holds the window, called inside the window's epoch.

use transom::{LockKind, OwnedWindow, Result};

struct Queue {
    window: OwnedWindow<u64>,
    steps: u64,
}

impl Queue {
    fn step(&mut self) {
        self.steps += 1;
    }

    fn run(&mut self) -> Result<()> {
        self.window.passive(|epoch| {
            let lock = epoch.lock(0, LockKind::Shared)?;
            self.step();
            lock.unlock()
        })
    }
}

fn main() {
    let _ = Queue::run;
}
