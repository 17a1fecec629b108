//! The program's datatypes, in Transom's form.

mod build;
mod cache;
mod predefined;
mod quick;

use std::ffi::{CStr, c_char};
use std::ops::Deref;
use std::sync::Arc;

use transom::BasicType;
use transom::raw::{Committed, Datatype};

pub(crate) use cache::{begin, end};
pub(crate) use predefined::{dense, single};
pub(crate) use quick::quick;

use crate::errors::Result;
use crate::host;
use crate::mpi_h::MPI_Datatype;

/// A datatype in two views.
pub(crate) struct Type {
    /// Its bytes, for operations that move data: it has as many bytes, whatever the elements are.
    pub(crate) bytes: Committed,
    /// Its elements, for operations that combine them.
    pub(crate) elements: Committed,
}

/// A predefined type without padding, and the size of an element.
#[derive(Clone, Copy)]
pub(crate) struct Dense {
    pub(crate) ty: BasicType,
    pub(crate) size: u32,
}

/// Both views of a type that is being made.
#[derive(Clone)]
struct Views {
    bytes: Datatype,
    elements: Datatype,
}

impl Views {
    /// Applies the same function to both views.
    fn each(&self, make: impl Fn(&Datatype) -> transom::Result<Datatype>) -> Result<Self> {
        Ok(Self {
            bytes: make(&self.bytes)?,
            elements: make(&self.elements)?,
        })
    }

    fn commit(&self) -> Type {
        Type {
            bytes: self.bytes.commit(),
            elements: self.elements.commit(),
        }
    }
}

/// A type that was found.
pub(crate) enum Known {
    Predefined(&'static Type),
    Derived(Arc<Type>),
}

impl Deref for Known {
    type Target = Type;

    fn deref(&self) -> &Type {
        match self {
            Self::Predefined(ty) => ty,
            Self::Derived(ty) => ty,
        }
    }
}

/// A predefined type as one element; also a type without a name.
pub(crate) fn single_of_any(datatype: MPI_Datatype) -> Option<BasicType> {
    single(datatype).or_else(|| build::single_by_precision(datatype))
}

/// The program's name for the type.
pub(crate) fn name(datatype: MPI_Datatype) -> String {
    let mut name = [0 as c_char; 1024];
    let mut len = 0;
    // SAFETY: there is room for the longest name of any host, which ends it with a 0.
    let name = unsafe {
        let code = host::PMPI_Type_get_name(datatype, name.as_mut_ptr(), &raw mut len);
        (code == 0).then(|| CStr::from_ptr(name.as_ptr()).to_string_lossy().into_owned())
    };
    name.filter(|name| !name.is_empty())
        .unwrap_or_else(|| "a derived datatype".to_owned())
}

/// The type of this handle of the host.
pub(crate) fn find(datatype: MPI_Datatype) -> Result<Known> {
    match predefined::find(datatype) {
        Some(ty) => Ok(Known::Predefined(ty)),
        None => cache::find(datatype).map(Known::Derived),
    }
}
