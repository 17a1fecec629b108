//! What users attach to windows: a name, and values under keys of their own (MPI-4.1, sections
//! 7.7.3 and 7.8).

use std::any::Any;
use std::error::Error as StdError;
use std::fmt;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use super::Window;
use crate::error::{Error, Misuse, Result};
use crate::wait::lock;

/// What the callback of a [`Keyval`] returns.
pub type CallbackResult = std::result::Result<(), Box<dyn StdError + Send + Sync>>;

type Delete = dyn Fn(&Window, &dyn Any) -> CallbackResult + Send + Sync;

/// A key under which windows keep values of type `V` (MPI-4.1, section 7.7.3,
/// `MPI_Win_create_keyval`). Clones are the same key. It exists as long as a clone or a value under
/// it.
///
/// There is no copy callback as in MPI: windows cannot be duplicated, so it would never run.
pub struct Keyval<V> {
    id: u64,
    delete: Option<Arc<Delete>>,
    values: PhantomData<fn(V) -> V>,
}

impl<V: Clone + Send + Sync + 'static> Keyval<V> {
    /// Local. A new key without a callback.
    #[must_use]
    pub fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            delete: None,
            values: PhantomData,
        }
    }

    /// Local. A new key with a callback. It is called with each value under the key when the value
    /// is deleted or replaced, or its window is freed. If it fails, the value and the window stay.
    #[must_use]
    pub fn with_delete(
        delete: impl Fn(&Window, &V) -> CallbackResult + Send + Sync + 'static,
    ) -> Self {
        let delete = move |window: &Window, value: &dyn Any| match value.downcast_ref() {
            Some(value) => delete(window, value),
            None => Ok(()),
        };
        Self {
            delete: Some(Arc::new(delete)),
            ..Self::new()
        }
    }
}

impl<V: Clone + Send + Sync + 'static> Default for Keyval<V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<V> Clone for Keyval<V> {
    fn clone(&self) -> Self {
        Self {
            id: self.id,
            delete: self.delete.clone(),
            values: PhantomData,
        }
    }
}

impl<V> fmt::Debug for Keyval<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Keyval").field(&self.id).finish()
    }
}

/// A window's name and its users' values.
#[derive(Default)]
pub(super) struct Attributes {
    name: Mutex<String>,
    /// In the order in which they were set.
    values: Mutex<Vec<Attribute>>,
}

struct Attribute {
    key: u64,
    value: Box<dyn Any + Send + Sync>,
    delete: Option<Arc<Delete>>,
}

impl Window {
    /// Local. The window's name, empty at first (MPI-4.1, section 7.8, `MPI_Win_get_name`).
    #[must_use]
    pub fn name(&self) -> String {
        lock(&self.attributes.name).clone()
    }

    /// Local. Names the window, for messages (MPI-4.1, section 7.8, `MPI_Win_set_name`).
    pub fn set_name(&self, name: impl Into<String>) {
        let name = name.into();
        if let Some(counters) = &self.counters {
            counters.set_name(&name);
        }
        *lock(&self.attributes.name) = name;
    }

    /// Local. The value that this rank has set under `key` (MPI-4.1, section 7.7.3,
    /// `MPI_Win_get_attr`).
    #[must_use]
    pub fn attribute<V: Clone + 'static>(&self, key: &Keyval<V>) -> Option<V> {
        let values = lock(&self.attributes.values);
        let found = values.iter().find(|held| held.key == key.id)?;
        found.value.downcast_ref().cloned()
    }

    /// Local. Stores `value` under `key`, on this rank. A previous value is deleted first (MPI-4.1,
    /// section 7.7.3, `MPI_Win_set_attr`).
    ///
    /// # Errors
    /// The key's callback refused to delete the old value, which stays.
    pub fn set_attribute<V: Clone + Send + Sync + 'static>(
        &self,
        key: &Keyval<V>,
        value: V,
    ) -> Result<()> {
        self.delete_attributes("set_attribute", Some(key.id))?;
        lock(&self.attributes.values).push(Attribute {
            key: key.id,
            value: Box::new(value),
            delete: key.delete.clone(),
        });
        Ok(())
    }

    /// Local. Deletes the value under `key`, if there is one (MPI-4.1, section 7.7.3,
    /// `MPI_Win_delete_attr`).
    ///
    /// # Errors
    /// The key's callback refused; the value stays.
    pub fn delete_attribute<V>(&self, key: &Keyval<V>) -> Result<()> {
        self.delete_attributes("delete_attribute", Some(key.id))
    }

    /// Deletes the value under one key, or all values in reverse order, until a callback refuses.
    pub(crate) fn delete_attributes(
        &self,
        operation: &'static str,
        key: Option<u64>,
    ) -> Result<()> {
        loop {
            let taken = {
                let mut values = lock(&self.attributes.values);
                let at = values
                    .iter()
                    .rposition(|held| key.is_none_or(|key| held.key == key));
                at.map(|at| (at, values.remove(at)))
            };
            let Some((at, attribute)) = taken else {
                return Ok(());
            };
            // Called without the lock: the callback may read the window's attributes.
            let Some(delete) = &attribute.delete else {
                continue;
            };
            if let Err(source) = delete(self, &*attribute.value) {
                let mut values = lock(&self.attributes.values);
                let at = at.min(values.len());
                values.insert(at, attribute);
                let what = "the callback that deletes an attribute";
                return Err(Error::new(operation, Misuse::Callback { what, source }));
            }
        }
    }
}
