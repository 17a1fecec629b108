//! The life of a window over somebody's memory.

use transom::raw::{self, Assert};
use transom::{Info, Job, Result, Window};

/// Which of the two makes the window.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Interface {
    Typed,
    Raw,
}

impl Interface {
    /// Makes a window over `memory`, calls `between`, stores `mark` to its last element through the
    /// window, and frees it while `freeing` lives. Returns the memory.
    pub(crate) fn live<F>(
        self,
        job: &Job,
        mut memory: Vec<u8>,
        mark: u8,
        between: impl FnOnce() -> F,
    ) -> Result<Vec<u8>> {
        let (world, me, last) = (job.world(), job.world().rank(), memory.len() - 1);
        match self {
            Self::Typed => {
                let mut window = Window::create(world, memory)?;
                let mark = [mark];
                window.fence(|epoch| epoch.target(me)?.put(last, &mark))?;
                let freeing = between();
                let memory = window.into_vec()?;
                drop(freeing);
                Ok(memory)
            }
            Self::Raw => {
                let (base, len) = (memory.as_mut_ptr(), memory.len());
                // SAFETY: nobody else knows of the vector, which outlives the window.
                let window = unsafe { raw::Window::create(world, base, len, 1, &Info::new())? };
                window.fence(Assert::NONE)?;
                // SAFETY: one byte, complete with the next fence.
                unsafe { window.put(&raw const mark, 1, me, last as u64)? };
                window.fence(Assert::NO_SUCCEED)?;
                let freeing = between();
                window.free()?;
                drop(freeing);
                Ok(memory)
            }
        }
    }
}
