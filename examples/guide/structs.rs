use transom::{Element, Job, Result, Window};

/// What windows hold has no padding, no pointers, and a value for any bytes: `bytemuck` checks that.
#[derive(Clone, Copy, Debug, Default, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
struct Cell {
    temperature: f64,
    pressure: f64,
    material: u32,
    /// In place of padding.
    reserved: u32,
}

/// Cells between a halo at either end.
const CELLS: usize = 100;

/// Sends the outermost cells to the neighbours: of this rank's part, to halos in theirs.
fn exchange_halos<T: Element>(window: &mut Window<T>) -> Result<()> {
    let (rank, ranks) = (window.rank(), window.ranks());
    // Behind an edge there is nobody.
    let left = rank.checked_sub(1);
    let right = Some(rank + 1).filter(|&right| right < ranks);
    window.fence(|epoch| {
        epoch.target(left)?.put_own(CELLS + 1..CELLS + 2, 1..2)?;
        epoch.target(right)?.put_own(0..1, CELLS..CELLS + 1)
    })
}

fn main() -> Result<()> {
    let job = Job::init()?;
    let world = job.world();
    let (rank, size) = (world.rank(), world.size());
    let mut window = Window::<Cell>::allocate(world, CELLS + 2)?;
    for (place, cell) in (0..).zip(&mut window.local_mut()?[1..=CELLS]) {
        cell.temperature = f64::from(place);
        cell.material = rank;
    }
    exchange_halos(&mut window)?;

    let cells = window.local()?;
    let of = |material, temperature| Cell {
        material,
        temperature,
        ..Cell::default()
    };
    match rank {
        0 => assert_eq!(cells[0], Cell::default()),
        _ => assert_eq!(cells[0], of(rank - 1, 99.0)),
    }
    if rank + 1 < size {
        assert_eq!(cells[CELLS + 1], of(rank + 1, 0.0));
    }
    window.free()
}
