//! Copies of this rank's own memory, which need no other rank.

use rdma_sys_shim::memory;

use super::Window;
use crate::error::{Error, Misuse, Result};
use crate::memory::displacement::Displacement;
use crate::peers::not_forked;
use crate::terms::Flavor;

impl Window {
    /// Local. Copies `to.len()` bytes of this rank's own memory, from the displacement `disp` on. It is legal in every
    /// state of the window: between epochs, inside one, and after an error. So it is how to save this rank's data after
    /// another rank has died, when epochs fail: not even the own memory can be locked if that rank held its lock.
    ///
    /// The copy includes what was complete here before this rank last synchronised with its origin (a fence, a lock, a
    /// notification). If another rank writes meanwhile, or has died while it wrote, each byte is an old or a new one.
    ///
    /// # Errors
    /// Bytes past the end of the memory; a dynamic window, which has no memory itself: load from what was attached.
    pub fn read_own(&self, disp: u64, to: &mut [u8]) -> Result<()> {
        const OPERATION: &str = "read_own";
        not_forked(OPERATION)?;
        let found = self.flavor();
        if found == Flavor::Dynamic {
            let needs = "a window that has memory itself";
            return Err(Error::new(OPERATION, Misuse::Flavor { found, needs }));
        }
        let (unit, len, size) = (self.disp_unit(), to.len() as u64, self.size());
        let offset = Displacement(disp).in_bytes(unit);
        let Some(offset) = offset.filter(|offset| offset.fits(len, size)) else {
            let rank = self.rank();
            let misuse = Misuse::PastEnd {
                rank,
                disp,
                unit,
                len,
                size,
            };
            return Err(Error::new(OPERATION, misuse));
        };
        if to.is_empty() {
            return Ok(());
        }
        let from = self.base().wrapping_add(offset.0 as usize);
        // SAFETY: the bytes are inside this rank's memory, which is mapped until the window is freed: the library owns
        // it, or the caller of `create` has promised it. Whoever makes a reference to it does so from `base`, in unsafe
        // code that allows for other accesses. `to` is borrowed uniquely, so it is no part of it.
        unsafe { memory::copy(to.as_mut_ptr(), from, to.len()) };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use crate::comm::Communicator;
    use crate::peers::ranks_in_process;
    use crate::wait::Patience;
    use crate::window::{Info, Window};

    #[test]
    fn a_copy_of_bytes_that_do_not_exist_is_refused() {
        let ranks = ranks_in_process("soft", 1, Patience::suspicious());
        let call = |context| {
            let world = Communicator::world(context);
            let window = Window::allocate(&world, 20, 4, &Info::new()).unwrap();
            // SAFETY: 20 bytes of this window, which nobody else uses.
            unsafe { window.base().write_bytes(7, 20) };
            let mut bytes = [0; 8];
            window.read_own(3, &mut bytes).unwrap();
            assert_eq!(bytes, [7; 8]);
            window.read_own(5, &mut []).unwrap();
            for (disp, len) in [(4, 8), (6, 0), (5, 1), (u64::MAX, 1), (1 << 62, 4)] {
                let error = window.read_own(disp, &mut bytes[..len]).unwrap_err();
                assert!(error.to_string().contains("past rank 0's"), "{error}");
            }
            let dynamic = Window::create_dynamic(&world, &Info::new()).unwrap();
            let error = dynamic.read_own(0, &mut bytes).unwrap_err();
            assert!(error.to_string().contains("memory itself"), "{error}");
            window.free().unwrap();
            dynamic.free().unwrap();
        };
        thread::scope(|scope| {
            for rank in &ranks {
                scope.spawn(move || call(rank));
            }
        });
    }
}
