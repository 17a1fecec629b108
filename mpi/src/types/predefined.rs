//! The predefined datatypes: a table that is made when the host begins.

use std::collections::HashMap;
use std::ffi::c_int;
use std::sync::OnceLock;

use transom::BasicType;
use transom::raw::Datatype;

use super::{Dense, Type, Views, quick};
use crate::constants::{self, Kind};
use crate::errors::{Failure, Result, bad};
use crate::host;
use crate::mpi_h::{MPI_Datatype, Number};

struct Predefined {
    dense: Option<Dense>,
    basic: Option<BasicType>,
    ty: &'static Type,
}

static ALL: OnceLock<HashMap<Number, Predefined>> = OnceLock::new();

fn known(datatype: MPI_Datatype) -> Option<&'static Predefined> {
    ALL.get()?.get(&datatype.number())
}

/// A predefined type whose elements have no padding.
#[inline(always)]
pub(crate) fn dense(datatype: MPI_Datatype) -> Option<Dense> {
    // A few are not in the quick table.
    quick::quick(datatype).or_else(|| known(datatype)?.dense)
}

/// A predefined type as one element.
#[inline(always)]
pub(crate) fn single(datatype: MPI_Datatype) -> Option<BasicType> {
    let quick = quick::quick(datatype).map(|dense| dense.ty);
    quick.or_else(|| known(datatype)?.basic)
}

pub(super) fn find(datatype: MPI_Datatype) -> Option<&'static Type> {
    quick::quick_type(datatype).or_else(|| Some(known(datatype)?.ty))
}

/// Asks the host how wide the types are.
pub(super) fn begin() {
    ALL.get_or_init(|| {
        let made = constants::predefined().filter_map(|(datatype, kind)| made(datatype, kind));
        let all: HashMap<_, _> = made.collect();
        let dense =
            |(&handle, known): (&Number, &Predefined)| Some((handle, known.dense?, known.ty));
        quick::begin(&all.iter().filter_map(dense).collect::<Vec<_>>());
        all
    });
}

fn made(datatype: MPI_Datatype, kind: Kind) -> Option<(Number, Predefined)> {
    if datatype == constants::datatype_null() || datatype.number() == 0 {
        return None;
    }
    let size = size(datatype)?;
    let basic = kind.of_size(size);
    let made = Predefined {
        basic,
        dense: basic.filter(|ty| ty.size() == ty.extent()).map(|ty| Dense {
            ty,
            size: ty.size() as u32,
        }),
        ty: Box::leak(Box::new(of_kind(kind, size)?.commit())),
    };
    Some((datatype.number(), made))
}

fn size(datatype: MPI_Datatype) -> Option<usize> {
    let mut size: c_int = 0;
    // SAFETY: a local; the handle is not null, and the host's own.
    let code = unsafe { host::PMPI_Type_size(datatype, &raw mut size) };
    // The size of a type that a host does not support is not positive.
    (code == 0 && size > 0).then_some(size.unsigned_abs() as usize)
}

fn of_kind(kind: Kind, size: usize) -> Option<Views> {
    let ty = kind.of_size(size)?;
    let byte = BasicType::Byte.into();
    let bytes = match ty.size() == ty.extent() {
        true => Datatype::contiguous(size as i64, &byte),
        // Only pairs of a value and an int have padding: after the value, or after both.
        false => {
            let int = size_of::<c_int>();
            let value = size - int;
            let (lens, at) = (
                [value as i64, int as i64],
                [0, value.next_multiple_of(int) as i64],
            );
            Datatype::hindexed(&lens, &at, &byte)
                .and_then(|bytes| Datatype::resized(&bytes, 0, ty.extent() as i64))
        }
    };
    Some(Views {
        bytes: bytes.ok()?,
        elements: ty.into(),
    })
}

/// A type of this kind that is not in the table.
pub(super) fn views(datatype: MPI_Datatype, kind: Kind) -> Option<Views> {
    of_kind(kind, size(datatype)?)
}

/// The same as one element.
pub(super) fn element(datatype: MPI_Datatype, kind: Kind) -> Option<BasicType> {
    kind.of_size(size(datatype)?)
}

/// The bytes of a predefined type for which Transom has no counterpart.
pub(super) fn moved(datatype: MPI_Datatype) -> Result<Views> {
    let size = size(datatype).ok_or_else(|| unknown("this predefined type"))?;
    let bytes = Datatype::contiguous(size as i64, &BasicType::Byte.into())?;
    Ok(Views {
        bytes: bytes.clone(),
        elements: bytes,
    })
}

pub(super) fn unknown(what: &str) -> Failure {
    bad(
        transom::ErrorClass::Type,
        format!("{what} is not a type that windows hold"),
    )
}
