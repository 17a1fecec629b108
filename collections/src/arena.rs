//! Pointers to elements of any rank, and the memory that they point into.

use std::any::type_name;
use std::fmt;

use bytemuck::{Pod, Zeroable};
use transom::{Communicator, Element, Session, Window};

use crate::agreement;
use crate::error::{Error, Result};

/// Where an element of an [`Arena`] is: a rank, and an index in its part. It is a plain value of eight bytes. Elements
/// of windows, arenas and maps can contain it, as a link to another element.
///
/// It does not know the arena, nor the type of its elements, so an element can point to others of its own type. Use it
/// with the arena that it came from.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Zeroable, Pod)]
#[repr(transparent)]
pub struct GlobalPtr {
    /// The index, above the rank plus 1; 0 is null.
    word: u64,
}

impl GlobalPtr {
    const RANK_BITS: u32 = 24;

    /// Points nowhere, as zeroed memory does.
    pub const NULL: Self = Self { word: 0 };

    /// Local. The element `index` of the part of `rank`. `None` if either is too large: pointers can name 2^24 − 1
    /// ranks, and 2^40 elements of each.
    #[must_use]
    pub fn new(rank: u32, index: usize) -> Option<Self> {
        let (rank, index) = (u64::from(rank) + 1, index as u64);
        let fits = rank >> Self::RANK_BITS == 0 && index >> (64 - Self::RANK_BITS) == 0;
        fits.then_some(Self {
            word: index << Self::RANK_BITS | rank,
        })
    }

    /// Local. Whether this is null.
    #[must_use]
    pub fn is_null(self) -> bool {
        self.rank().is_none()
    }

    /// Local. The rank whose part it points into; `None` if it is null.
    #[must_use]
    pub fn rank(self) -> Option<u32> {
        (self.word as u32 & ((1 << Self::RANK_BITS) - 1)).checked_sub(1)
    }

    /// Local. The index in that part.
    #[must_use]
    pub fn index(self) -> usize {
        (self.word >> Self::RANK_BITS) as usize
    }

    /// Local. The element `count` after this one. `None` if this is null, or the index would be too large.
    #[must_use]
    pub fn offset(self, count: usize) -> Option<Self> {
        Self::new(self.rank()?, self.index().checked_add(count)?)
    }

    /// Local. As a number, for a window of numbers: 0 is null.
    #[must_use]
    pub fn to_bits(self) -> u64 {
        self.word
    }

    /// Local. Converts a result of [`GlobalPtr::to_bits`] back.
    #[must_use]
    pub fn from_bits(word: u64) -> Self {
        Self { word }
    }
}

impl fmt::Debug for GlobalPtr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.rank() {
            Some(rank) => write!(f, "GlobalPtr({rank}, {})", self.index()),
            None => f.write_str("GlobalPtr(null)"),
        }
    }
}

/// Elements on every rank. Any rank allocates them on any rank, and they link to each other by [`GlobalPtr`]: lists,
/// trees, values of different lengths. Freeing the arena frees all of them at once.
///
/// ```
/// use bytemuck::{Pod, Zeroable};
/// use transom::Job;
/// use transom_collections::{Arena, GlobalPtr};
///
/// #[derive(Clone, Copy, Pod, Zeroable)]
/// #[repr(C)]
/// struct Node {
///     value: u64,
///     next: GlobalPtr,
/// }
///
/// # fn main() -> transom_collections::Result<()> {
/// let job = Job::init()?;
/// let arena = Arena::<Node>::new(job.world(), 100)?;
/// let mut list = GlobalPtr::NULL;
/// for value in 0..3 {
///     let node = arena.alloc(0, 1)?;
///     arena.write(node, &[Node { value, next: list }])?;
///     list = node;
/// }
/// let mut values = Vec::new();
/// while !list.is_null() {
///     let node = arena.read(list)?;
///     values.push(node.value);
///     list = node.next;
/// }
/// assert_eq!(values, [2, 1, 0]);
/// arena.free()
/// # }
/// ```
///
/// # When a rank dies
/// Operations on its part fail with an error that names it. A rank that detects the death tells the others, and after
/// that other operations may fail, too. An arena cannot be carried over to the survivors.
pub struct Arena<T: Element> {
    elements: Session<'static, T>,
    /// How many elements of each part are allocated.
    allocated: Session<'static, u64>,
    capacity: usize,
}

impl<T: Element> Arena<T> {
    /// Collective. Room for `capacity` elements on each rank.
    ///
    /// # Errors
    /// On every rank if one rank fails: `capacity` differs between ranks or is more than a [`GlobalPtr`] can point to,
    /// sizes of elements differ, out of memory, a rank died or left.
    pub fn new(comm: &Communicator, capacity: usize) -> Result<Self> {
        const OPERATION: &str = "Arena::new";
        let ours = format!(
            "room for {capacity} elements of {} ({} bytes)",
            type_name::<T>(),
            size_of::<T>()
        );
        agreement::alike(comm, OPERATION, &ours)?;
        if GlobalPtr::new(comm.size(), capacity).is_none() {
            return Err(Error::BadArgument {
                operation: OPERATION,
                what: format!(
                    "{capacity} elements on {} ranks cannot be pointed to",
                    comm.size()
                ),
            });
        }
        let elements = Window::allocate(comm, capacity)?.into_owned();
        let allocated = match Window::allocate(comm, 1) {
            Ok(window) => window.into_owned(),
            Err(error) => {
                elements.free()?;
                return Err(error.into());
            }
        };
        Ok(Self {
            elements: elements.into_session()?,
            allocated: allocated.into_session()?,
            capacity,
        })
    }

    /// One-sided. Allocates `count` consecutive elements in the part of `rank`. All bytes are zero.
    ///
    /// # Errors
    /// [`Error::Full`], permanently: no memory is returned before [`Arena::free`]; `rank` is not one of the ranks, or
    /// died.
    pub fn alloc(&self, rank: u32, count: usize) -> Result<GlobalPtr> {
        let full = Error::Full {
            operation: "Arena::alloc",
            rank,
            capacity: self.capacity,
        };
        let mut at = self.allocated.load(rank, 0)?;
        loop {
            let end = at.saturating_add(count as u64);
            if end > self.capacity as u64 {
                return Err(full);
            }
            match self.allocated.compare_swap(rank, 0, at, end)? {
                old if old == at => break,
                old => at = old,
            }
        }
        GlobalPtr::new(rank, at as usize).ok_or(full)
    }

    /// One-sided. The element that `from` points to.
    ///
    /// # Errors
    /// `from` is null, or points to no element of this arena; its rank died.
    pub fn read(&self, from: GlobalPtr) -> Result<T> {
        let (rank, at) = place("Arena::read", from)?;
        Ok(self.elements.get_value(rank, at)?)
    }

    /// One-sided. `count` elements, beginning with the one that `from` points to.
    ///
    /// # Errors
    /// As for [`Arena::read`].
    pub fn read_vec(&self, from: GlobalPtr, count: usize) -> Result<Vec<T>> {
        let (rank, at) = place("Arena::read_vec", from)?;
        Ok(self.elements.get_vec(rank, at, count)?)
    }

    /// One-sided. Copies `elements` to where `to` points.
    ///
    /// # Errors
    /// As for [`Arena::read`].
    pub fn write(&self, to: GlobalPtr, elements: &[T]) -> Result<()> {
        let (rank, at) = place("Arena::write", to)?;
        Ok(self.elements.put_blocking(rank, at, elements)?)
    }

    /// Local. The elements, for atomic operations and batches, by [`GlobalPtr::rank`] and [`GlobalPtr::index`].
    #[must_use]
    pub fn session(&self) -> &Session<'static, T> {
        &self.elements
    }

    /// Collective. Frees the arena and all its elements.
    ///
    /// # Errors
    /// A rank died or left. Then the memory is leaked.
    pub fn free(self) -> Result<()> {
        self.allocated.free()?;
        Ok(self.elements.free()?)
    }
}

fn place(operation: &'static str, pointer: GlobalPtr) -> Result<(u32, usize)> {
    let null = || Error::BadArgument {
        operation,
        what: "a null pointer".to_owned(),
    };
    Ok((pointer.rank().ok_or_else(null)?, pointer.index()))
}
