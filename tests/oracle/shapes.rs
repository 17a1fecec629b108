//! Datatypes as programs construct them: a constructor and its arguments.

use transom::raw::{Committed, Datatype, Order};
use transom::{BasicType, Result};

#[derive(Clone, Debug)]
pub(crate) enum Shape {
    Basic(BasicType),
    Contiguous(i64, Box<Self>),
    /// `bytes`: the stride counts bytes, as in `hvector`.
    Vector {
        count: i64,
        len: i64,
        stride: i64,
        bytes: bool,
        of: Box<Self>,
    },
    /// Lengths and displacements of blocks; `bytes` as in `hindexed`.
    Indexed {
        blocks: Vec<(i64, i64)>,
        bytes: bool,
        of: Box<Self>,
    },
    /// Displacements of blocks of one length; `bytes` as in `hindexed_block`.
    IndexedBlock {
        len: i64,
        at: Vec<i64>,
        bytes: bool,
        of: Box<Self>,
    },
    /// Lengths, displacements in bytes, and types.
    Struct(Vec<(i64, i64, Self)>),
    /// For each dimension the size, that of the part, and where the part begins.
    Subarray {
        dimensions: Vec<[i64; 3]>,
        order: Order,
        of: Box<Self>,
    },
    Resized {
        lb: i64,
        extent: i64,
        of: Box<Self>,
    },
    Dup(Box<Self>),
}

impl Shape {
    pub(crate) fn boxed(self) -> Box<Self> {
        Box::new(self)
    }

    pub(crate) fn commit(&self) -> Result<Committed> {
        Ok(self.construct()?.commit())
    }

    pub(crate) fn construct(&self) -> Result<Datatype> {
        match self {
            Self::Basic(ty) => Ok((*ty).into()),
            Self::Contiguous(count, of) => Datatype::contiguous(*count, &of.construct()?),
            Self::Vector {
                count,
                len,
                stride,
                bytes,
                of,
            } => {
                let new = if *bytes {
                    Datatype::hvector
                } else {
                    Datatype::vector
                };
                new(*count, *len, *stride, &of.construct()?)
            }
            Self::Indexed { blocks, bytes, of } => {
                let (lens, at): (Vec<_>, Vec<_>) = blocks.iter().copied().unzip();
                let new = if *bytes {
                    Datatype::hindexed
                } else {
                    Datatype::indexed
                };
                new(&lens, &at, &of.construct()?)
            }
            Self::IndexedBlock { len, at, bytes, of } => {
                let new = if *bytes {
                    Datatype::hindexed_block
                } else {
                    Datatype::indexed_block
                };
                new(*len, at, &of.construct()?)
            }
            Self::Struct(members) => {
                let lens: Vec<_> = members.iter().map(|(len, ..)| *len).collect();
                let at: Vec<_> = members.iter().map(|(_, at, _)| *at).collect();
                let types = members.iter().map(|(.., of)| of.construct());
                Datatype::structure(&lens, &at, &types.collect::<Result<Vec<_>>>()?)
            }
            Self::Subarray {
                dimensions,
                order,
                of,
            } => {
                let [sizes, parts, starts] =
                    [0, 1, 2].map(|which| dimensions.iter().map(|one| one[which]).collect());
                let (sizes, parts, starts): (Vec<_>, Vec<_>, Vec<_>) = (sizes, parts, starts);
                Datatype::subarray(&sizes, &parts, &starts, *order, &of.construct()?)
            }
            Self::Resized { lb, extent, of } => Datatype::resized(&of.construct()?, *lb, *extent),
            Self::Dup(of) => Ok(Datatype::dup(&of.construct()?)),
        }
    }
}
