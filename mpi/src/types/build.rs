//! Derived datatypes, from what the host says of how they were made (MPI-4.1, section 5.1.13).

use std::ffi::c_int;

use transom::raw::{Datatype, Order};
use transom::{BasicType, ErrorClass};

use super::{Views, predefined};
use crate::constants::{self, Combiner, Kind};
use crate::errors::{Result, bad};
use crate::host::{Symbol, check, host};
use crate::mpi_h::{MPI_Aint, MPI_Count, MPI_Datatype};

/// The arguments of the call that made a type.
struct Contents {
    combiner: Combiner,
    integers: Vec<i64>,
    addresses: Vec<i64>,
    types: Vec<Old>,
}

/// A type that the host gave out, to be given back if it is not predefined.
struct Old(MPI_Datatype);

impl Drop for Old {
    fn drop(&mut self) {
        if predefined::find(self.0).is_none() && !is_named(self.0) {
            // SAFETY: MPI_Type_get_contents made it; nobody else has the handle.
            unsafe { host!(PMPI_Type_free(*mut MPI_Datatype))(&raw mut self.0) };
        }
    }
}

/// How many integers, addresses, large counts and types there are.
struct Envelope {
    combiner: c_int,
    lens: [MPI_Count; 4],
}

/// Hosts of MPI 4 refuse to say in `int`s how a type with large counts was made.
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
        type Len = *mut MPI_Count;
        // SAFETY: all are locals; the host checks the handle.
        check(unsafe {
            host!(PMPI_Type_get_envelope_c(MPI_Datatype, Len, Len, Len, Len, *mut c_int))(
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
        host!(PMPI_Type_get_envelope(MPI_Datatype, *mut c_int, *mut c_int, *mut c_int, *mut c_int))(
            datatype,
            integers,
            addresses,
            types,
            &raw mut combiner,
        )
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

/// Of a type that the host made for a Fortran program's choice of precision: predefined, without a name.
fn kind_by_precision(combiner: Combiner) -> Option<Kind> {
    match combiner {
        Combiner::F90Real => Some(Kind::Float),
        Combiner::F90Complex => Some(Kind::Complex),
        Combiner::F90Integer => Some(Kind::Signed),
        _ => None,
    }
}

/// Such a type, as one element.
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
                true => host!(
                    PMPI_Type_get_contents_c(
                        MPI_Datatype,
                        MPI_Count,
                        MPI_Count,
                        MPI_Count,
                        MPI_Count,
                        *mut c_int,
                        *mut MPI_Aint,
                        *mut MPI_Count,
                        *mut MPI_Datatype,
                    )
                )(
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
                false => host!(
                    PMPI_Type_get_contents(
                        MPI_Datatype,
                        c_int,
                        c_int,
                        c_int,
                        *mut c_int,
                        *mut MPI_Aint,
                        *mut MPI_Datatype,
                    )
                )(
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

    /// Puts large counts where a type made with `int`s has what they say (MPI-4.1, section 5.1.13).
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

    /// So many integers from one on.
    fn list(&self, from: usize, len: i64) -> Vec<i64> {
        let range = from..from + len.unsigned_abs() as usize;
        self.integers[range].to_vec()
    }

    fn old(&self) -> Result<Views> {
        build(self.types[0].0)
    }
}

/// A type of any nesting.
pub(super) fn build(datatype: MPI_Datatype) -> Result<Views> {
    let views = inside(datatype)?;
    match predefined::find(datatype) {
        Some(_) => Ok(views),
        None => bounded(datatype, &views),
    }
}

/// With the host's bounds, which it rounds up to alignments of its own choice (MPI-4.1, section 5.1.6).
fn bounded(datatype: MPI_Datatype, views: &Views) -> Result<Views> {
    let (mut lb, mut extent): (MPI_Count, MPI_Count) = (0, 0);
    // SAFETY: both are locals; the host checks the handle.
    check(unsafe {
        host!(PMPI_Type_get_extent_x(MPI_Datatype, *mut MPI_Count, *mut MPI_Count))(
            datatype,
            &raw mut lb,
            &raw mut extent,
        )
    })?;
    views.each(|view| match (view.lb(), view.extent()) == (lb, extent) {
        true => Ok(view.clone()),
        false => Datatype::resized(view, lb, extent),
    })
}

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
    let first = |at: usize| contents.integer(at);
    match contents.combiner {
        Combiner::Named => predefined::moved(datatype),
        Combiner::F90Real | Combiner::F90Complex | Combiner::F90Integer => {
            let kind = kind_by_precision(contents.combiner);
            let views = kind.and_then(|kind| predefined::views(datatype, kind));
            views.ok_or_else(|| predefined::unknown("a type of that precision"))
        }
        Combiner::Dup => contents.old(),
        Combiner::Contiguous => contents
            .old()?
            .each(|old| Datatype::contiguous(first(0), old)),
        Combiner::Vector => {
            let make = |old: &Datatype| Datatype::vector(first(0), first(1), first(2), old);
            contents.old()?.each(make)
        }
        Combiner::Hvector => {
            let stride = contents.addresses[0];
            let make = |old: &Datatype| Datatype::hvector(first(0), first(1), stride, old);
            contents.old()?.each(make)
        }
        Combiner::Indexed => {
            let count = first(0);
            let lens = contents.list(1, count);
            let at = contents.list(1 + lens.len(), count);
            contents
                .old()?
                .each(|old| Datatype::indexed(&lens, &at, old))
        }
        Combiner::Hindexed => {
            let (lens, at) = (contents.list(1, first(0)), contents.addresses.clone());
            contents
                .old()?
                .each(|old| Datatype::hindexed(&lens, &at, old))
        }
        Combiner::IndexedBlock => {
            let at = contents.list(2, first(0));
            contents
                .old()?
                .each(|old| Datatype::indexed_block(first(1), &at, old))
        }
        Combiner::HindexedBlock => {
            let at = &contents.addresses;
            contents
                .old()?
                .each(|old| Datatype::hindexed_block(first(1), at, old))
        }
        Combiner::Struct => structure(&contents),
        Combiner::Resized => {
            let bounds = &contents.addresses;
            contents
                .old()?
                .each(|old| Datatype::resized(old, bounds[0], bounds[1]))
        }
        Combiner::Subarray => subarray(&contents),
        Combiner::Darray => darray(&contents),
    }
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

fn order(number: i64) -> Order {
    match number == i64::from(constants::order_c()) {
        true => Order::C,
        false => Order::Fortran,
    }
}

fn subarray(contents: &Contents) -> Result<Views> {
    let dims = contents.integer(0);
    let list = |which: usize| contents.list(1 + which * dims.unsigned_abs() as usize, dims);
    let order = order(contents.integer(1 + 3 * dims.unsigned_abs() as usize));
    let (sizes, subsizes, starts) = (list(0), list(1), list(2));
    let make = |old: &Datatype| Datatype::subarray(&sizes, &subsizes, &starts, order, old);
    contents.old()?.each(make)
}

/// The elements that one process has of an array which is spread over a grid of processes (section 5.1.4).
struct Spread {
    sizes: Vec<i64>,
    /// Which of each dimension's indices are here: where runs begin, and how long they are.
    runs: Vec<(Vec<i64>, Vec<i64>)>,
    order: Order,
}

fn darray(contents: &Contents) -> Result<Views> {
    let (rank, dims) = (contents.integer(1), contents.integer(2));
    let list = |which: usize| contents.list(3 + which * dims.unsigned_abs() as usize, dims);
    let (sizes, kinds, args, grid) = (list(0), list(1), list(2), list(3));
    let order = order(contents.integer(3 + 4 * dims.unsigned_abs() as usize));
    let mut rest = rank;
    let mut places = vec![0; grid.len()];
    // The grid's order is C's, whatever the array's.
    for (place, &processes) in places.iter_mut().zip(&grid).rev() {
        *place = rest % processes;
        rest /= processes;
    }
    let runs = (0..sizes.len())
        .map(|d| runs(sizes[d], kinds[d], args[d], grid[d], places[d]))
        .collect();
    let spread = Spread { sizes, runs, order };
    contents.old()?.each(|old| spread.of(old))
}

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

impl Spread {
    fn of(&self, old: &Datatype) -> transom::Result<Datatype> {
        let dims = self.sizes.len();
        let inwards: Vec<usize> = match self.order {
            Order::C => (0..dims).rev().collect(),
            Order::Fortran => (0..dims).collect(),
        };
        let mut stride = old.extent();
        let mut part = old.clone();
        for d in inwards {
            let (starts, lens) = &self.runs[d];
            let at: Vec<i64> = starts
                .iter()
                .map(|&start| start.saturating_mul(stride))
                .collect();
            // One index after the other, whatever the part of an index spans.
            let one = Datatype::resized(&part, part.lb(), stride)?;
            part = Datatype::hindexed(lens, &at, &one)?;
            stride = stride.saturating_mul(self.sizes[d]);
        }
        Datatype::resized(&part, 0, stride)
    }
}
