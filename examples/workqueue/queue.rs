//! Which tasks are next: a counter on rank 0, from which each rank draws by one fetch_and_op. Rank 0
//! does nothing for it, and may be computing all the while.

use std::ops::Range;

use transom::{Communicator, LockKind, Window};

use transom_examples::Failure;

pub(crate) struct Queue<'c> {
    counter: Window<'c, u64>,
    tasks: u64,
    chunk: u64,
}

impl<'c> Queue<'c> {
    /// Collective.
    pub(crate) fn new(comm: &'c Communicator, tasks: u32, chunk: u32) -> transom::Result<Self> {
        let len = usize::from(comm.rank() == 0);
        Ok(Self {
            counter: Window::allocate(comm, len)?,
            tasks: tasks.into(),
            chunk: chunk.into(),
        })
    }

    /// Collective at both ends. Calls `work` with tasks until there are no more.
    pub(crate) fn drain(
        &mut self,
        mut work: impl FnMut(Range<u32>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let (tasks, chunk) = (self.tasks, self.chunk);
        self.counter.passive(|epoch| -> Result<(), Failure> {
            let counter = epoch.lock(0, LockKind::Shared)?;
            loop {
                let first = counter.fetch_add(0, chunk)?;
                if first >= tasks {
                    break;
                }
                let end = tasks.min(first + chunk);
                work(first as u32..end as u32)?;
            }
            Ok(counter.unlock()?)
        })?
    }

    /// Collective.
    pub(crate) fn free(self) -> transom::Result<()> {
        self.counter.free()
    }
}
