//! An element with a gap between its fields.

use bytemuck::{Pod, Zeroable};
use transom::{Job, Result, Window};

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Particle {
    mass: f64,
    kind: u32,
}

fn main() -> Result<()> {
    let job = Job::init()?;
    Window::<Particle>::allocate(job.world(), 8)?.free()
}
