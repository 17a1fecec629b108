use transom::raw::{Assert, Committed, Datatype, Window};
use transom::{BasicType, Info, Job, Result};

const ROWS: usize = 4;
const COLUMNS: usize = 6;

fn main() -> Result<()> {
    let job = Job::init()?;
    let world = job.world();
    let right = (world.rank() + 1) % world.size();
    let window = Window::allocate(world, 8 * ROWS * COLUMNS, 8, &Info::new())?;

    // A column: one element of each row. Committed once, it can be used by every operation.
    let number = Committed::of(BasicType::F64);
    let column = Datatype::vector(ROWS as i64, 1, COLUMNS as i64, number.datatype())?.commit();
    let values = [1.0_f64, 2.0, 3.0, 4.0];

    window.fence(Assert::NO_PRECEDE)?;
    let (dense, strided) = (number.times(4), column.times(1));
    // SAFETY: `values` outlives the fence that completes the put, and does not change.
    unsafe { window.put_layout(values.as_ptr().cast(), dense, right, 2, strided)? };
    window.fence(Assert::NO_SUCCEED)?;

    for (row, value) in values.iter().enumerate() {
        // SAFETY: inside this rank's memory, to which nobody writes after the fence.
        let found = unsafe { window.base().cast::<f64>().add(row * COLUMNS + 2).read() };
        assert_eq!(found, *value);
    }
    window.free()
}
