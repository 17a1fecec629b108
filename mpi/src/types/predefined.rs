//! The predefined datatypes: a table, made when the host begins.

use std::ffi::c_int;
use std::sync::OnceLock;

use transom::BasicType;
use transom::raw::Datatype;

use super::{Dense, Type, Views, quick};
use crate::constants::{self, Kind};
use crate::errors::{Failure, Result, bad};
use crate::host::host;
use crate::mpi_h::{MPI_Datatype, Number};

/// Some four times as many as there are types.
const SLOTS: usize = 256;

#[derive(Clone, Copy)]
struct Slot {
    /// 0 where there is none.
    handle: Number,
    dense: Option<Dense>,
    basic: Option<BasicType>,
    ty: Option<&'static Type>,
}

struct Table([Slot; SLOTS]);

static TABLE: OnceLock<Table> = OnceLock::new();

#[inline(always)]
fn place(handle: Number) -> usize {
    ((handle as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as usize
}

#[inline(always)]
fn slot(datatype: MPI_Datatype) -> Option<&'static Slot> {
    let table = TABLE.get()?;
    let handle = datatype.number();
    let mut at = place(handle);
    loop {
        let slot = &table.0[at % SLOTS];
        if slot.handle == handle {
            return Some(slot);
        }
        if slot.handle == 0 {
            return None;
        }
        at += 1;
    }
}

/// A predefined type whose elements have no padding.
#[inline(always)]
pub(crate) fn dense(datatype: MPI_Datatype) -> Option<Dense> {
    slot(datatype)?.dense
}

/// A predefined type, as one element.
#[inline(always)]
pub(crate) fn single(datatype: MPI_Datatype) -> Option<BasicType> {
    slot(datatype)?.basic
}

pub(super) fn find(datatype: MPI_Datatype) -> Option<&'static Type> {
    slot(datatype)?.ty
}

/// Asks the host how wide the types are.
pub(super) fn begin() {
    TABLE.get_or_init(|| {
        let mut table = Table(
            [Slot {
                handle: 0,
                dense: None,
                basic: None,
                ty: None,
            }; SLOTS],
        );
        for (datatype, kind) in constants::predefined() {
            if let Some(slot) = made(datatype, kind) {
                let mut at = place(slot.handle);
                while table.0[at % SLOTS].handle != 0 && table.0[at % SLOTS].handle != slot.handle {
                    at += 1;
                }
                table.0[at % SLOTS] = slot;
            }
        }
        let taken = table
            .0
            .iter()
            .filter_map(|slot| Some((slot.handle, slot.dense?)));
        quick::begin(&taken.collect::<Vec<_>>());
        table
    });
}

fn made(datatype: MPI_Datatype, kind: Kind) -> Option<Slot> {
    if datatype == constants::datatype_null() || datatype.number() == 0 {
        return None;
    }
    let size = size(datatype)?;
    let views = of_kind(kind, size)?;
    let ty: &'static Type = Box::leak(Box::new(views.commit()));
    let basic = kind.of_size(size);
    Some(Slot {
        handle: datatype.number(),
        basic,
        dense: basic.filter(|ty| ty.size() == ty.extent()).map(|ty| Dense {
            ty,
            size: ty.size() as u32,
        }),
        ty: Some(ty),
    })
}

fn size(datatype: MPI_Datatype) -> Option<usize> {
    let mut size: c_int = 0;
    // SAFETY: a local; the handle is not null, and the host's own.
    let code = unsafe { host!(PMPI_Type_size(MPI_Datatype, *mut c_int))(datatype, &raw mut size) };
    // Types that a host does not support have no size.
    (code == 0 && size > 0).then_some(size.unsigned_abs() as usize)
}

fn of_kind(kind: Kind, size: usize) -> Option<Views> {
    let ty = kind.of_size(size)?;
    let byte = BasicType::Byte.into();
    let bytes = match ty.size() == ty.extent() {
        true => Datatype::contiguous(size as i64, &byte),
        // Only pairs of a value and an int have padding: behind the value, or behind both.
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

/// The same, as one element.
pub(super) fn element(datatype: MPI_Datatype, kind: Kind) -> Option<BasicType> {
    kind.of_size(size(datatype)?)
}

/// A predefined type that Transom has nothing like: its bytes.
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
