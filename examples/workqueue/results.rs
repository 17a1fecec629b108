//! Where results go: memory of rank 0, in pieces that are attached to a dynamic window. A worker
//! puts what it has found there, and rank 0 finds it there in the end.
//!
//! The typed interface has no dynamic windows, so this uses the untyped one: what the compiler does
//! not know of the pieces is said where they are handed over.

use transom::raw::{self, Assert};
use transom::{Communicator, Info, Result};

/// Each piece costs rank 0 an attach, and every rank a look at it: some are enough.
const MOST_PIECES: usize = 32;

pub(crate) struct Results {
    window: raw::Window,
    /// The addresses of rank 0's pieces, known to all.
    places: Vec<u64>,
    /// On rank 0, the pieces themselves, as boxed slices that were leaked: other ranks write to
    /// them, so no reference to one may exist.
    pieces: Vec<*mut [u32]>,
    /// Elements of one result.
    len: usize,
    /// Results in a piece.
    each: usize,
}

/// The results on rank 0.
pub(crate) struct Collected {
    pieces: Vec<Box<[u32]>>,
    len: usize,
    tasks: usize,
}

impl Collected {
    /// In the order of tasks.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &[u32]> {
        let results = self.pieces.iter().flat_map(|it| it.chunks_exact(self.len));
        results.take(self.tasks)
    }
}

impl Results {
    /// Collective. Room for the results of so many tasks, `len` elements each, all `u32::MAX`.
    pub(crate) fn new(comm: &Communicator, tasks: u32, len: usize) -> Result<Self> {
        let window = raw::Window::create_dynamic(comm, &Info::new())?;
        let each = (tasks as usize).div_ceil(MOST_PIECES);
        let count = (tasks as usize).div_ceil(each);
        let mut pieces = Vec::new();
        if comm.rank() == 0 {
            for _ in 0..count {
                let piece = Box::into_raw(vec![u32::MAX; len * each].into_boxed_slice());
                pieces.push(piece);
                // SAFETY: nobody here uses the piece before `finish`, which detaches it; if that
                // is not reached, it is never freed.
                unsafe { window.attach(piece.cast(), size_of::<u32>() * len * each)? };
            }
        }
        let address = |&piece: &*mut [u32]| raw::get_address(piece.cast::<u32>());
        let mut places: Vec<_> = pieces.iter().map(address).collect();
        places.resize(count, 0);
        comm.bcast(&mut places, 0)?;
        window.lock_all(Assert::NONE)?;
        Ok(Self {
            window,
            places,
            pieces,
            len,
            each,
        })
    }

    /// One-sided. Puts the result of a task, which is there when this returns.
    pub(crate) fn put(&self, task: u32, result: &[u32]) -> Result<()> {
        assert_eq!(result.len(), self.len, "all results are as long");
        let (piece, number) = (task as usize / self.each, task as usize % self.each);
        let place = self.places[piece] + (number * size_of_val(result)) as u64;
        let (origin, len) = (result.as_ptr().cast(), size_of_val(result));
        // SAFETY: the flush completes the operation while `result` is borrowed; if it fails, the
        // device has done with it too. It is none of the pieces: nobody has a reference to one.
        unsafe { self.window.put(origin, len, 0, place)? };
        self.window.flush(0)
    }

    /// Collective. The results of `tasks` tasks on rank 0, none elsewhere.
    pub(crate) fn finish(self, comm: &Communicator, tasks: u32) -> Result<Collected> {
        self.window.unlock_all()?;
        // Behind it, nobody puts any more.
        comm.barrier()?;
        let mut pieces = Vec::new();
        for piece in self.pieces {
            self.window.detach(piece.cast())?;
            // SAFETY: leaked in `new`, once; with it detached, this is the only way to it.
            pieces.push(unsafe { Box::from_raw(piece) });
        }
        self.window.free()?;
        Ok(Collected {
            pieces,
            len: self.len,
            tasks: tasks as usize,
        })
    }
}
