//! A type that holds a window, as one first writes it.

use transom::Window;

struct Queue {
    window: Window<u64>,
}

fn main() {
    let _: Option<Queue> = None;
}
