//! A peer's memory and the words in it, reached by the processor where it is mapped and through
//! the device where it is not.
//!
//! If a device's atomics and the processor's are not atomic to each other (`AtomicDomain::Device`), words that peers
//! change by atomics are changed only through endpoints, this rank's own through its endpoint to itself. Words with one
//! writer are stored by `Endpoint::store` or by their writer's processor. Others read them by an RDMA read, never by an
//! atomic that adds zero, since that would write the word back. The exception is the abort word: two causes may
//! overwrite each other, and both are true.
//!
//! If all ranks report `AtomicDomain::Global`, the processor changes mapped elements, and the device all others. Lock
//! words are changed by the device only: a mapped accumulate lock is released by a store, which would lose what another
//! rank adds through the device at the same time.

use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use rdma_sys_shim::memory::{before_flag, copy, full_fence};
use rdma_sys_shim::{
    Direction, Endpoint, Fetch, Mapping, RemoteAddress, RemoteRegion, Ticket, Update, Width,
};

use super::displacement::Offset;
use super::reach::Reach;
use super::word::{LockWord, SharedWord};
use crate::error::{Error, Result};
use crate::wait::Patience;

/// A region of a peer's memory.
#[derive(Clone)]
pub(crate) struct RemoteMemory {
    endpoint: Arc<dyn Endpoint>,
    region: RemoteRegion,
    mapping: Option<Arc<Mapping>>,
    /// Whether the processor's atomics may change words of the mapping.
    has_atomics: bool,
    patience: Patience,
}

impl RemoteMemory {
    pub(crate) fn new(
        endpoint: Arc<dyn Endpoint>,
        region: RemoteRegion,
        patience: Patience,
    ) -> Result<Self> {
        let mapping = endpoint.map(&region)?;
        Ok(Self::with_mapping(endpoint, region, mapping, patience))
    }

    /// As [`RemoteMemory::new`], if the mapping is the only way; `None` if nothing can be mapped there.
    pub(crate) fn mapped_or_fail(
        endpoint: Arc<dyn Endpoint>,
        region: RemoteRegion,
        patience: Patience,
    ) -> Result<Option<Self>> {
        let mapping = endpoint.map_or_fail(&region)?;
        Ok(mapping.map(|mapping| Self::with_mapping(endpoint, region, Some(mapping), patience)))
    }

    fn with_mapping(
        endpoint: Arc<dyn Endpoint>,
        region: RemoteRegion,
        mapping: Option<Mapping>,
        patience: Patience,
    ) -> Self {
        Self {
            endpoint,
            region,
            has_atomics: mapping.as_ref().is_some_and(Mapping::has_atomics),
            mapping: mapping.map(Arc::new),
            patience,
        }
    }

    /// The same memory for words that the processor's atomics change instead of the device's.
    pub(crate) fn with_atomics(&self) -> Self {
        Self {
            has_atomics: self.mapping.is_some(),
            ..self.clone()
        }
    }

    pub(crate) fn is_mapped(&self) -> bool {
        self.mapping.is_some()
    }

    pub(crate) fn endpoint(&self) -> &Arc<dyn Endpoint> {
        &self.endpoint
    }

    /// The address of `len` bytes at `offset`, or null if they are not mapped.
    #[inline]
    fn mapped(&self, offset: u64, len: u64) -> *mut u8 {
        let mapping = self.mapping.as_deref();
        let reach = mapping.map_or(Reach::NOTHING, Reach::from);
        reach.at(Offset(offset), len)
    }

    /// Writes `bytes` at `offset`. A peer that sees a word that is stored afterwards also sees them.
    pub(crate) fn write(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let here = self.mapped(offset, bytes.len() as u64);
        if here.is_null() {
            // SAFETY: the slice is readable, and the device no longer uses it when this function returns.
            let ticket = unsafe {
                let (from, at) = (bytes.as_ptr().cast_mut(), self.region.at(offset));
                (self.endpoint).transfer(Direction::Write, from, bytes.len(), at)?
            };
            return self.patience.release(&*self.endpoint, ticket);
        }
        // SAFETY: `mapped` found the range inside the mapping, which lives as long as `self`.
        unsafe { copy(here, bytes.as_ptr(), bytes.len()) };
        Ok(())
    }

    /// The aligned word at `offset`, if it is mapped: for loads, and for stores if no other rank stores to it.
    #[inline]
    fn mapped_word(&self, offset: u64) -> Option<&AtomicU64> {
        let here = self.mapped(offset, 8).cast::<u64>();
        if here.is_null() || !here.is_aligned() {
            return None;
        }
        // SAFETY: an aligned word inside the mapping, which lives as long as `self`; all accesses to it are atomic.
        Some(unsafe { AtomicU64::from_ptr(here) })
    }

    /// The value of the aligned word at `offset`, if it is mapped.
    #[inline]
    pub(crate) fn look(&self, offset: u64) -> Option<u64> {
        self.mapped_word(offset).map(SharedWord::look)
    }

    /// The aligned word at `offset`, if the processor's atomics may change it.
    #[inline]
    fn atomic(&self, offset: u64) -> Option<&AtomicU64> {
        let word = self.mapped_word(offset)?;
        self.has_atomics.then_some(word)
    }

    /// Whether additions to the word at `offset` do not go through the device.
    #[inline]
    pub(crate) fn is_raised_here(&self, offset: u64) -> bool {
        self.atomic(offset).is_some()
    }

    /// Adds one to the word at `offset`, after all earlier operations of this rank on the same peer. If the word is
    /// mapped, operations of the device must already be complete.
    #[inline]
    pub(crate) fn raise(&self, offset: u64) -> Result<Ticket> {
        match self.atomic(offset) {
            Some(word) => {
                before_flag();
                word.fetch_add(1, Ordering::Release);
                Ok(Ticket::DONE)
            }
            None => self.post_add(self.region.at(offset), &1),
        }
    }

    /// Adds to a word of this memory through the device, without waiting for it.
    #[cold]
    fn post_add(&self, at: RemoteAddress, add: &'static u64) -> Result<Ticket> {
        behind_stores();
        let add = ptr::from_ref(add).cast();
        // SAFETY: one word that is readable forever.
        Ok(unsafe { (self.endpoint).update_each(at, Width::W8, Update::Add, add, 1)? })
    }

    /// Copies the bytes at `offset`; returns when they have arrived.
    pub(crate) fn read(&self, offset: u64, to: &mut [u8]) -> Result<()> {
        let here = self.mapped(offset, to.len() as u64);
        if here.is_null() {
            return self.read_at(self.region.at(offset), to);
        }
        // SAFETY: `mapped` found the range inside the mapping, which lives as long as `self`.
        unsafe { copy(to.as_mut_ptr(), here, to.len()) };
        behind_read();
        Ok(())
    }

    /// Copies the bytes of another region of the same peer, through the device.
    pub(crate) fn read_region(&self, region: &RemoteRegion, to: &mut [u8]) -> Result<()> {
        assert_eq!(region.len, to.len() as u64);
        self.read_at(region.at(0), to)
    }

    fn read_at(&self, at: RemoteAddress, to: &mut [u8]) -> Result<()> {
        // SAFETY: a unique slice that outlives the operation, which is waited for.
        let ticket =
            unsafe { (self.endpoint).transfer(Direction::Read, to.as_mut_ptr(), to.len(), at)? };
        self.complete(ticket)
    }

    fn complete(&self, ticket: Ticket) -> Result<()> {
        self.patience.complete(&*self.endpoint, ticket)?;
        behind_read();
        Ok(())
    }

    /// The aligned eight-byte word at `offset`, while this memory is kept.
    pub(crate) fn word(self: &Arc<Self>, offset: u64) -> RemoteWord {
        // A misaligned place can only be a peer's mistake; the device will refuse it.
        let aligned = self.region.address.wrapping_add(offset).is_multiple_of(8);
        let mapped = if aligned {
            self.mapped(offset, 8)
        } else {
            ptr::null_mut()
        };
        let atomic = if self.has_atomics {
            mapped
        } else {
            ptr::null_mut()
        };
        RemoteWord {
            mapped: mapped.cast(),
            atomic: atomic.cast(),
            address: self.region.at(offset),
            memory: self.clone(),
            stored: AtomicU64::new(0),
        }
    }
}

/// Orders later reads after earlier ones, which may have been loads of this thread, even if the later ones go through
/// the device.
fn behind_read() {
    fence(Ordering::Acquire);
}

/// Orders later requests to the device for words after this thread's stores: those to mapped memory, like puts, and
/// those to its own memory, which others may read through a mapping.
#[inline]
pub(crate) fn behind_stores() {
    full_fence();
}

/// A word of a peer's memory.
pub(crate) struct RemoteWord {
    /// Null if the word has to be accessed through the device.
    mapped: *mut u64,
    /// The same, but also null if the processor may only load and store.
    atomic: *mut u64,
    address: RemoteAddress,
    memory: Arc<RemoteMemory>,
    /// The last value stored through the device.
    stored: AtomicU64,
}

// SAFETY: the pointer is into the mapping that `memory` keeps, and is only used for atomics.
unsafe impl Send for RemoteWord {}
// SAFETY: as above.
unsafe impl Sync for RemoteWord {}

impl RemoteWord {
    /// The same word, for reading elsewhere. It must not be stored to, since that needs this value's record of earlier
    /// stores.
    pub(crate) fn to_look_at(&self) -> Self {
        Self {
            mapped: self.mapped,
            atomic: self.atomic,
            address: self.address,
            memory: self.memory.clone(),
            stored: AtomicU64::new(0),
        }
    }

    /// Where the device finds it.
    pub(crate) fn address(&self) -> RemoteAddress {
        self.address
    }

    /// The word `bytes` bytes after this one.
    pub(crate) fn behind(&self, bytes: u64) -> Self {
        let offset = (self.address.address).wrapping_sub(self.memory.region.address);
        self.memory.word(offset.wrapping_add(bytes))
    }

    /// The word itself, if the processor's atomics may change it.
    #[inline(always)]
    pub(crate) fn atomic(&self) -> Option<&AtomicU64> {
        // SAFETY: null, or in the mapping.
        unsafe { self.at(self.atomic) }
    }

    /// The word itself, if it is mapped: for loads, and for stores if no other rank stores to it.
    #[inline(always)]
    fn mapped(&self) -> Option<&AtomicU64> {
        // SAFETY: null, or in the mapping.
        unsafe { self.at(self.mapped) }
    }

    /// # Safety
    /// `word` is null, or an aligned word inside the mapping that `memory` keeps alive.
    #[inline(always)]
    unsafe fn at(&self, word: *mut u64) -> Option<&AtomicU64> {
        if word.is_null() {
            return None;
        }
        // SAFETY: the caller's promise; all accesses to it are atomic.
        Some(unsafe { AtomicU64::from_ptr(word) })
    }

    /// Whether stores to it do not go through the device.
    #[inline]
    pub(crate) fn is_stored_here(&self) -> bool {
        self.mapped().is_some()
    }

    /// Whether the peer's device refused access to this very word. Over a broken connection, an earlier refusal may be
    /// reported again.
    pub(crate) fn is_refused(&self, error: &Error) -> bool {
        error.refused_address() == Some(self.address.address)
    }

    /// Stores after all earlier writes of this rank to the same peer. Only for words that begin with 0 and that only
    /// this method writes. The ticket is complete when the word has arrived.
    #[inline]
    pub(crate) fn store(&self, value: u64) -> Result<Ticket> {
        match self.mapped() {
            Some(word) => {
                word.publish(value);
                Ok(Ticket::DONE)
            }
            None => self.store_by_device(value),
        }
    }

    /// Not waited for: the peer's operations stay in order anyway, and the next awaited operation reports a failure.
    #[cold]
    fn store_by_device(&self, value: u64) -> Result<Ticket> {
        let old = self.stored.load(Ordering::Relaxed);
        behind_stores();
        let ticket = self.memory.endpoint.store(self.address, old, value)?;
        self.stored.store(value, Ordering::Relaxed);
        Ok(ticket)
    }

    /// Through the device, a word that its owner stores meanwhile may be torn.
    #[inline]
    pub(crate) fn load(&self) -> Result<u64> {
        match self.mapped() {
            Some(word) => Ok(word.look()),
            None => self.read_by_device(),
        }
    }

    /// Loads a word that is seldom stored, untorn: it was read twice with the same value.
    pub(crate) fn load_whole(&self) -> Result<u64> {
        let mut seen = self.load()?;
        if self.mapped().is_some() {
            return Ok(seen);
        }
        loop {
            match self.load()? {
                again if again == seen => return Ok(seen),
                other => seen = other,
            }
        }
    }

    /// Loads a word that only atomics change, untorn.
    pub(crate) fn load_by_atomic(&self) -> Result<u64> {
        match self.mapped() {
            Some(word) => Ok(word.look()),
            None => self.compare_swap(0, 0),
        }
    }

    /// A read, not an atomic that adds 0: that would write the word back, over a value that its owner may have stored
    /// meanwhile. A caller that acts on a lock word then tries an atomic.
    #[cold]
    fn read_by_device(&self) -> Result<u64> {
        let mut value = 0_u64;
        self.memory
            .read_at(self.address, bytemuck::bytes_of_mut(&mut value))?;
        Ok(value)
    }

    /// Adds through the device, without waiting: the next awaited operation reports a failure.
    pub(crate) fn post_add(&self, add: &'static u64) -> Result<()> {
        let posted = self.memory.post_add(self.address, add)?;
        self.send(posted);
        Ok(())
    }

    #[cold]
    fn fetch_by_device(&self, fetch: Fetch) -> Result<u64> {
        let mut old = 0;
        // SAFETY: a local variable that outlives the operation, which is waited for.
        let ticket = unsafe { self.begin_fetch(fetch, &raw mut old)? };
        self.complete(ticket)?;
        Ok(old)
    }

    /// Begins an atomic of the device; [`RemoteWord::complete`] waits for its end. Until then, or until
    /// [`RemoteWord::send`], it may stay in this process.
    ///
    /// # Safety
    /// `old` is writable, and nobody else touches it, until the operation is complete.
    pub(crate) unsafe fn begin_fetch(&self, fetch: Fetch, old: *mut u64) -> Result<Ticket> {
        behind_stores();
        let endpoint = &self.memory.endpoint;
        // SAFETY: the caller's promise.
        Ok(unsafe { endpoint.fetch(self.address, Width::W8, fetch, old)? })
    }

    /// As [`RemoteWord::begin_fetch`], for a compare-and-swap, which is complete at once if the word is mapped.
    ///
    /// # Safety
    /// As for [`RemoteWord::begin_fetch`].
    pub(crate) unsafe fn begin_compare_swap(
        &self,
        expect: u64,
        new: u64,
        old: *mut u64,
    ) -> Result<Ticket> {
        match self.atomic() {
            Some(word) => {
                // SAFETY: the caller's promise.
                unsafe { old.write(word.replace_if(expect, new)) };
                Ok(Ticket::DONE)
            }
            // SAFETY: as above.
            None => unsafe { self.begin_fetch(Fetch::CompareSwap { expect, new }, old) },
        }
    }

    /// Sends an operation on the word, and every earlier one on the same peer, without waiting for their end.
    pub(crate) fn send(&self, ticket: Ticket) {
        // If it has failed, the wait for it returns the error.
        let _ = self.memory.endpoint.completed(ticket);
    }

    /// Waits for an operation on the word, and so for every earlier one on the same peer. Later loads, also through a
    /// mapping, see no older data.
    pub(crate) fn complete(&self, ticket: Ticket) -> Result<()> {
        self.memory.complete(ticket)
    }
}

impl LockWord for RemoteWord {
    #[inline(always)]
    fn load(&self) -> Result<u64> {
        self.load()
    }

    #[inline(always)]
    fn fetch_add(&self, add: u64) -> Result<u64> {
        match self.atomic() {
            Some(word) => Ok(word.add(add)),
            None => self.fetch_by_device(Fetch::Add(add)),
        }
    }

    #[inline(always)]
    fn compare_swap(&self, expect: u64, new: u64) -> Result<u64> {
        match self.atomic() {
            Some(word) => Ok(word.replace_if(expect, new)),
            None => self.fetch_by_device(Fetch::CompareSwap { expect, new }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::tests::scripted::Scripted;
    use crate::wait::lock;

    #[test]
    fn a_word_that_is_torn_by_a_store_is_read_again() {
        let (old, torn, new) = (0x0257_0006, 0x0258_0006, 0x0258_0007);
        let (endpoint, word) = scripted_word();
        lock(&endpoint.words).extend([torn, new, new, old]);
        assert_eq!(word.load_whole().unwrap(), new);
        assert_eq!(*lock(&endpoint.words), [old], "and no more often than that");
    }

    #[test]
    fn a_word_that_atomics_change_all_the_time_is_loaded_by_one_and_stays_as_it_is() {
        let (endpoint, word) = scripted_word();
        for held in [0x0257_0006, 0] {
            endpoint.held.store(held, Ordering::Relaxed);
            assert_eq!(word.load_by_atomic().unwrap(), held);
            assert_eq!(endpoint.held.load(Ordering::Relaxed), held);
        }
    }

    fn scripted_word() -> (Arc<Scripted>, RemoteWord) {
        let endpoint = Arc::new(Scripted::default());
        let region = RemoteRegion {
            address: 4096,
            len: 64,
            rkey: 1,
        };
        let memory = RemoteMemory::new(endpoint.clone(), region, Patience::new(1)).unwrap();
        (endpoint, Arc::new(memory).word(8))
    }
}
