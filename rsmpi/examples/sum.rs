//! The program of `docs/rsmpi.md`: each rank adds its number to a sum on rank 0, by both libraries.

use mpi::collective::SystemOperation;
use mpi::traits::*;
use transom::{Op, Result, Window};

fn main() -> Result<()> {
    let universe = mpi::initialize().expect("MPI was initialized before");
    let world = universe.world();
    let job = transom_rsmpi::job(&world)?;

    let mut window = Window::<u64>::allocate(job.world(), 1)?;
    let mine = [u64::from(job.world().rank()) + 1];
    window.fence(|epoch| epoch.target(0)?.accumulate(Op::Sum, 0, &mine))?;

    let mut sum = 0;
    world.all_reduce_into(&mine[0], &mut sum, SystemOperation::sum());
    if world.rank() == 0 {
        println!("{} by the window, {sum} by rsmpi", window.local()?[0]);
    }
    window.free()
}
