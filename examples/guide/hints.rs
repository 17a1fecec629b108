use transom::raw::{Flavor, Keyval, Window};
use transom::{Info, Job, Result};

fn main() -> Result<()> {
    let job = Job::init()?;
    let hints = Info::new()
        .with("accumulate_ordering", "none")
        .with("mpi_minimum_memory_alignment", "65536");
    let window = Window::allocate(job.world(), 1000, 1, &hints)?;

    // What is in force, defaults included.
    let info = window.info();
    assert_eq!(info.get("accumulate_ordering"), Some("none"));
    assert_eq!(info.get("no_locks"), Some("false"));
    assert_eq!(window.base().addr() % 65536, 0);

    // What MPI has as predefined attributes, and what a program attaches itself.
    assert_eq!((window.size(), window.disp_unit()), (1000, 1));
    assert_eq!(window.flavor(), Flavor::Allocate);
    let key = Keyval::new();
    window.set_attribute(&key, "for the halo")?;
    assert_eq!(window.attribute(&key), Some("for the halo"));
    window.set_name("halo");
    window.free()
}
