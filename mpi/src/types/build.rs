//! Makes derived datatypes from the host's description of how they were made (MPI-4.1, section 5.1.13).

use std::ffi::c_int;

use transom::raw::{Datatype, Order};
use transom::{BasicType, ErrorClass};

use super::{Views, predefined};
use crate::constants::{self, Combiner, Kind};
use crate::errors::{Result, bad};
use crate::host::{self, Symbol, check};
use crate::mpi_h::{MPI_Aint, MPI_Count, MPI_Datatype};

/// The arguments of the call that made a type.
struct Contents {
    combiner: Combiner,
    integers: Vec<i64>,
    addresses: Vec<i64>,
    types: Vec<Old>,
}

/// A type that the host returned. It is freed unless it is predefined.
struct Old(MPI_Datatype);

impl Drop for Old {
    fn drop(&mut self) {
        if predefined::find(self.0).is_none() && !is_named(self.0) {
            // SAFETY: MPI_Type_get_contents made it, and nothing else has the handle.
            unsafe { host::PMPI_Type_free(&raw mut self.0) };
        }
    }
}

/// The number of integers, addresses, large counts and types.
struct Envelope {
    combiner: c_int,
    lens: [MPI_Count; 4],
}

/// Hosts of MPI 4 refuse to describe a type with large counts in `int`s.
fn has_large() -> bool {
    static LARGE: Symbol = Symbol::new("PMPI_Type_get_envelope_c\0");
    LARGE.find().is_some()
}

fn envelope(datatype: MPI_Datatype) -> Result<Envelope> {
    if datatype == constants::datatype_null() {
        return Err(bad(ErrorClass::Type, "the datatype is MPI_DATATYPE_NULL"));
    }
    let mut combiner = 0;
    if has_large() {
        let mut lens = [0; 4];
        let [integers, addresses, counts, types] = lens.each_mut().map(|len| &raw mut *len);
        // SAFETY: all are locals; the host checks the handle.
        check(unsafe {
            host::PMPI_Type_get_envelope_c(
                datatype,
                integers,
                addresses,
                counts,
                types,
                &raw mut combiner,
            )
        })?;
        return Ok(Envelope { combiner, lens });
    }
    let mut lens = [0; 3];
    let [integers, addresses, types] = lens.each_mut().map(|len| &raw mut *len);
    // SAFETY: all are locals; the host checks the handle.
    check(unsafe {
        host::PMPI_Type_get_envelope(datatype, integers, addresses, types, &raw mut combiner)
    })?;
    let [integers, addresses, types] = lens.map(MPI_Count::from);
    let lens = [integers, addresses, 0, types];
    Ok(Envelope { combiner, lens })
}

fn is_named(datatype: MPI_Datatype) -> bool {
    let named = |combiner| combiner == Combiner::Named || kind_by_precision(combiner).is_some();
    combiner(datatype).is_some_and(named)
}

fn combiner(datatype: MPI_Datatype) -> Option<Combiner> {
    Combiner::of(envelope(datatype).ok()?.combiner)
}

/// The kind of a type that the host made for a precision that a Fortran program chose. It is predefined, but has no
/// name.
fn kind_by_precision(combiner: Combiner) -> Option<Kind> {
    match combiner {
        Combiner::F90Real => Some(Kind::Float),
        Combiner::F90Complex => Some(Kind::Complex),
        Combiner::F90Integer => Some(Kind::Signed),
        _ => None,
    }
}

/// Such a type as one element.
pub(super) fn single_by_precision(datatype: MPI_Datatype) -> Option<BasicType> {
    let kind = kind_by_precision(combiner(datatype)?)?;
    predefined::element(datatype, kind)
}

impl Contents {
    /// `None` for a predefined type.
    fn of(datatype: MPI_Datatype) -> Result<Option<Self>> {
        let Envelope { combiner, lens } = envelope(datatype)?;
        let Some(combiner) = Combiner::of(combiner) else {
            let text = format!("a datatype of the kind {combiner} is not known here");
            return Err(bad(ErrorClass::Type, text));
        };
        if combiner == Combiner::Named {
            return Ok(None);
        }
        let len = |at: usize| usize::try_from(lens[at]).unwrap_or(0);
        let mut integers: Vec<c_int> = vec![0; len(0)];
        let mut addresses: Vec<MPI_Aint> = vec![0; len(1)];
        let mut counts: Vec<MPI_Count> = vec![0; len(2)];
        let mut types = vec![constants::datatype_null(); len(3)];
        let place = (
            integers.as_mut_ptr(),
            addresses.as_mut_ptr(),
            types.as_mut_ptr(),
        );
        // SAFETY: the lists are as long as the host said.
        check(unsafe {
            match has_large() {
                true => host::PMPI_Type_get_contents_c(
                    datatype,
                    lens[0],
                    lens[1],
                    lens[2],
                    lens[3],
                    place.0,
                    place.1,
                    counts.as_mut_ptr(),
                    place.2,
                ),
                false => host::PMPI_Type_get_contents(
                    datatype,
                    lens[0] as c_int,
                    lens[1] as c_int,
                    lens[3] as c_int,
                    place.0,
                    place.1,
                    place.2,
                ),
            }
        })?;
        #[allow(
            clippy::unnecessary_cast,
            reason = "of what type they are, hosts differ"
        )]
        let mut contents = Self {
            combiner,
            integers: integers.into_iter().map(i64::from).collect(),
            addresses: addresses.into_iter().map(|at| at as i64).collect(),
            types: types.into_iter().map(Old).collect(),
        };
        if !counts.is_empty() {
            contents.put_counts(&counts);
        }
        Ok(Some(contents))
    }

    /// Puts large counts where a type made with `int`s has the corresponding integers (MPI-4.1, section 5.1.13).
    fn put_counts(&mut self, counts: &[MPI_Count]) {
        let ints = match self.combiner {
            Combiner::Resized => 0,
            Combiner::Hvector | Combiner::HindexedBlock => 2,
            Combiner::Hindexed | Combiner::Struct => {
                1 + usize::try_from(counts[0])
                    .unwrap_or(0)
                    .min(counts.len() - 1)
            }
            _ => counts.len(),
        };
        let at = match self.combiner {
            Combiner::Subarray => 1,
            Combiner::Darray => 3,
            _ => 0,
        };
        let (ints, addresses) = counts.split_at(ints.min(counts.len()));
        self.integers.splice(at..at, ints.iter().copied());
        self.addresses = addresses.to_vec();
    }

    fn integer(&self, at: usize) -> i64 {
        self.integers[at]
    }

    /// `len` integers, beginning at index `from`.
    fn list(&self, from: usize, len: i64) -> Vec<i64> {
        let range = from..from + len.unsigned_abs() as usize;
        self.integers[range].to_vec()
    }

    /// After the number of dimensions there are lists with an integer for each dimension. Returns the list at index
    /// `place`.
    fn each_dim(&self, dims_at: usize, place: usize) -> Vec<i64> {
        let dims = self.integer(dims_at);
        self.list(dims_at + 1 + place * dims.unsigned_abs() as usize, dims)
    }

    fn order(&self, at: usize) -> Order {
        match self.integer(at) == i64::from(constants::order_c()) {
            true => Order::C,
            false => Order::Fortran,
        }
    }

    fn old(&self) -> Result<Views> {
        build(self.types[0].0)
    }
}

/// Makes a type of any nesting.
pub(super) fn build(datatype: MPI_Datatype) -> Result<Views> {
    let views = inside(datatype)?;
    match predefined::find(datatype) {
        Some(_) => Ok(views),
        None => bounded(datatype, &views),
    }
}

/// With the host's bounds, which the host rounds up to an alignment of its choice (MPI-4.1, section 5.1.6).
fn bounded(datatype: MPI_Datatype, views: &Views) -> Result<Views> {
    let (mut lb, mut extent): (MPI_Count, MPI_Count) = (0, 0);
    // SAFETY: both are locals; the host checks the handle.
    check(unsafe { host::PMPI_Type_get_extent_x(datatype, &raw mut lb, &raw mut extent) })?;
    views.each(|view| match (view.lb(), view.extent()) == (lb, extent) {
        true => Ok(view.clone()),
        false => Datatype::resized(view, lb, extent),
    })
}

/// Makes a type of its inner type.
type Make<'a> = Box<dyn Fn(&Datatype) -> transom::Result<Datatype> + 'a>;

fn inside(datatype: MPI_Datatype) -> Result<Views> {
    if let Some(ty) = predefined::find(datatype) {
        return Ok(Views {
            bytes: ty.bytes.datatype().clone(),
            elements: ty.elements.datatype().clone(),
        });
    }
    let contents = match Contents::of(datatype)? {
        Some(contents) => contents,
        None => return predefined::moved(datatype),
    };
    let (first, at) = (|at: usize| contents.integer(at), &contents.addresses);
    let make: Make<'_> = match contents.combiner {
        Combiner::Named => return predefined::moved(datatype),
        Combiner::F90Real | Combiner::F90Complex | Combiner::F90Integer => {
            let kind = kind_by_precision(contents.combiner);
            let views = kind.and_then(|kind| predefined::views(datatype, kind));
            return views.ok_or_else(|| predefined::unknown("a type of that precision"));
        }
        Combiner::Struct => return structure(&contents),
        Combiner::Dup => Box::new(|old| Ok(old.clone())),
        Combiner::Contiguous => Box::new(|old| Datatype::contiguous(first(0), old)),
        Combiner::Vector => Box::new(|old| Datatype::vector(first(0), first(1), first(2), old)),
        Combiner::Hvector => Box::new(|old| Datatype::hvector(first(0), first(1), at[0], old)),
        Combiner::Indexed => {
            let lens = contents.list(1, first(0));
            let at = contents.list(1 + lens.len(), first(0));
            Box::new(move |old| Datatype::indexed(&lens, &at, old))
        }
        Combiner::Hindexed => {
            let lens = contents.list(1, first(0));
            Box::new(move |old| Datatype::hindexed(&lens, at, old))
        }
        Combiner::IndexedBlock => {
            let at = contents.list(2, first(0));
            Box::new(move |old| Datatype::indexed_block(first(1), &at, old))
        }
        Combiner::HindexedBlock => Box::new(|old| Datatype::hindexed_block(first(1), at, old)),
        Combiner::Resized => Box::new(|old| Datatype::resized(old, at[0], at[1])),
        Combiner::Subarray => {
            let [sizes, subsizes, starts] = [0, 1, 2].map(|which| contents.each_dim(0, which));
            let order = contents.order(1 + 3 * sizes.len());
            Box::new(move |old| Datatype::subarray(&sizes, &subsizes, &starts, order, old))
        }
        Combiner::Darray => darray(&contents),
    };
    contents.old()?.each(make)
}

fn structure(contents: &Contents) -> Result<Views> {
    let lens = contents.list(1, contents.integer(0));
    let at = &contents.addresses;
    let members: Vec<Views> = contents
        .types
        .iter()
        .map(|old| build(old.0))
        .collect::<Result<_>>()?;
    let (bytes, elements): (Vec<Datatype>, Vec<Datatype>) = members
        .into_iter()
        .map(|views| (views.bytes, views.elements))
        .unzip();
    Ok(Views {
        bytes: Datatype::structure(&lens, at, &bytes)?,
        elements: Datatype::structure(&lens, at, &elements)?,
    })
}

/// One process's elements of an array that is distributed over a grid of processes (section 5.1.4).
fn darray(contents: &Contents) -> Make<'_> {
    let mut rest = contents.integer(1);
    let [sizes, kinds, args, grid] = [0, 1, 2, 3].map(|which| contents.each_dim(2, which));
    let dims = sizes.len();
    let order = contents.order(3 + 4 * dims);
    let mut places = vec![0; dims];
    // The grid always has C's order, whatever the array's order is.
    for (place, &processes) in places.iter_mut().zip(&grid).rev() {
        *place = rest % processes;
        rest /= processes;
    }
    // The process's indices in each dimension, from the innermost dimension outwards.
    let runs = |d: usize| {
        (
            sizes[d],
            runs(sizes[d], kinds[d], args[d], grid[d], places[d]),
        )
    };
    let inwards: Vec<_> = match order {
        Order::C => (0..dims).rev().map(runs).collect(),
        Order::Fortran => (0..dims).map(runs).collect(),
    };
    Box::new(move |old| {
        let mut stride = old.extent();
        let mut part = old.clone();
        for (size, (starts, lens)) in &inwards {
            let at = starts
                .iter()
                .map(|&start: &i64| start.saturating_mul(stride));
            // Each index begins one stride after the previous one, whatever the part of an index spans.
            let one = Datatype::resized(&part, part.lb(), stride)?;
            part = Datatype::hindexed(lens, &at.collect::<Vec<_>>(), &one)?;
            stride = stride.saturating_mul(*size);
        }
        Datatype::resized(&part, 0, stride)
    })
}

/// The beginnings of the runs of indices, and their lengths.
fn runs(size: i64, kind: i64, arg: i64, processes: i64, place: i64) -> (Vec<i64>, Vec<i64>) {
    let default = arg == i64::from(constants::distribute_dflt_darg());
    let block = if kind == i64::from(constants::distribute_block()) {
        match default {
            true => (size + processes - 1) / processes,
            false => arg,
        }
    } else if kind == i64::from(constants::distribute_cyclic()) {
        if default { 1 } else { arg }
    } else {
        size
    };
    let step = usize::try_from(block * processes)
        .unwrap_or(usize::MAX)
        .max(1);
    let starts = (place * block..size).step_by(step);
    starts.map(|start| (start, block.min(size - start))).unzip()
}
