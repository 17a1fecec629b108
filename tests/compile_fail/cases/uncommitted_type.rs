//! A datatype in an operation before it was committed.

use transom::raw::{Assert, Datatype, Window};
use transom::{BasicType, Info, Job, Result};

fn main() -> Result<()> {
    let job = Job::init()?;
    let window = Window::allocate(job.world(), 800, 8, &Info::new())?;
    let column = Datatype::vector(10, 1, 10, &BasicType::F64.into())?;
    let values = [0_f64; 10];
    window.fence(Assert::NONE)?;
    let from = values.as_ptr().cast();
    unsafe { window.put_layout(from, column.times(1), 0, 0, column.times(1))? };
    window.free()
}
