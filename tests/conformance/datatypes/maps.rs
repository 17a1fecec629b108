//! Layouts and, beside each, where its bytes are: listed literally, not asked of the library.

use transom::raw::{Committed, Datatype, Layout, Order};
use transom::{BasicType, Result};

/// `count` elements of a type, and the offset of every one of their predefined elements, in order.
pub(crate) struct Map {
    pub(crate) name: &'static str,
    ty: Committed,
    count: u64,
    pub(crate) places: Vec<i64>,
}

/// How many predefined elements each of [`maps`] has.
pub(crate) const ELEMENTS: i64 = 60;

impl Map {
    fn new(name: &'static str, ty: &Datatype, count: u64, places: Vec<i64>) -> Self {
        assert_eq!(places.len() as i64, ELEMENTS, "{name}");
        let ty = ty.commit();
        Self {
            name,
            ty,
            count,
            places,
        }
    }

    pub(crate) fn layout(&self) -> Layout<'_> {
        self.ty.times(self.count)
    }

    /// From the first byte to the end of the last, for elements of `size` bytes.
    pub(crate) fn span(&self, size: usize) -> (i64, i64) {
        let lo = self.places.iter().min().copied().unwrap_or(0);
        let hi = self.places.iter().max().copied().unwrap_or(0);
        (lo, hi + size as i64)
    }
}

/// Layouts of [`ELEMENTS`] elements of one predefined type.
pub(crate) fn maps(basic: BasicType) -> Result<Vec<Map>> {
    let old = Datatype::from(basic);
    let e = basic.extent() as i64;
    let row = |count: i64, stride: i64| (0..count).map(move |i| i * stride);
    let mut maps = vec![
        Map::new("dense", &old, ELEMENTS as u64, row(60, e).collect()),
        Map::new(
            "column",
            &Datatype::vector(60, 1, 7, &old)?,
            1,
            row(60, 7 * e).collect(),
        ),
        Map::new(
            "blocks of three",
            &Datatype::vector(10, 3, 5, &old)?,
            2,
            // The second begins at the extent of the first, which has no gap at its end.
            row(2, (9 * 5 + 3) * e)
                .flat_map(|start| {
                    row(10, 5 * e).flat_map(move |at| row(3, e).map(move |i| start + at + i))
                })
                .collect(),
        ),
        Map::new(
            "backwards",
            &Datatype::hvector(60, 1, -2 * e, &old)?,
            1,
            row(60, -2 * e).collect(),
        ),
        Map::new(
            "spread elements",
            &Datatype::resized(&old, 0, 3 * e)?,
            60,
            row(60, 3 * e).collect(),
        ),
    ];
    let column = Datatype::vector(10, 1, 6, &old)?;
    maps.push(Map::new(
        "columns side by side",
        &Datatype::hvector(6, 1, e, &column)?,
        1,
        row(6, e)
            .flat_map(|start| row(10, 6 * e).map(move |at| start + at))
            .collect(),
    ));
    let lens = [1, 0, 20, 3, 7, 29];
    let starts = [-4, 3, 100, 0, 7, 40];
    maps.push(Map::new(
        "indexed",
        &Datatype::indexed(&lens, &starts, &old)?,
        1,
        std::iter::zip(lens, starts)
            .flat_map(|(len, start)| row(len, e).map(move |at| start * e + at))
            .collect(),
    ));
    let places: Vec<i64> = (0..30).map(|i| (i * 7 % 30) * 3 * e).collect();
    maps.push(Map::new(
        "scattered pairs",
        &Datatype::hindexed_block(2, &places, &old)?,
        1,
        places.iter().flat_map(|&at| [at, at + e]).collect(),
    ));
    let (sizes, parts, starts) = ([7, 8, 3], [5, 6, 2], [1, 2, 0]);
    maps.push(Map::new(
        "part of a cube",
        &Datatype::subarray(&sizes, &parts, &starts, Order::C, &old)?,
        1,
        row(5, 1)
            .flat_map(|x| row(6, 1).flat_map(move |y| row(2, 1).map(move |z| (x, y, z))))
            .map(|(x, y, z)| (((x + 1) * 8 + y + 2) * 3 + z) * e)
            .collect(),
    ));
    maps.push(Map::new(
        "part of a cube, Fortran's way",
        &Datatype::subarray(&sizes, &parts, &starts, Order::Fortran, &old)?,
        1,
        row(2, 1)
            .flat_map(|z| row(6, 1).flat_map(move |y| row(5, 1).map(move |x| (x, y, z))))
            .map(|(x, y, z)| ((z * 8 + y + 2) * 7 + x + 1) * e)
            .collect(),
    ));
    let members = [column, old.clone(), Datatype::vector(4, 2, 9, &old)?];
    let (lens, displacements) = ([2, 24, 2], [0, 200 * e, 300 * e]);
    let struct_of = Datatype::structure(&lens, &displacements, &members)?;
    let mut places = Vec::new();
    for start in row(2, 55 * e) {
        places.extend(row(10, 6 * e).map(|at| start + at));
    }
    places.extend(row(24, e).map(|at| 200 * e + at));
    for start in row(2, 29 * e) {
        for block in row(4, 9 * e) {
            places.extend(row(2, e).map(|at| 300 * e + start + block + at));
        }
    }
    maps.push(Map::new("struct", &struct_of, 1, places));
    maps.push(Map::new(
        "elements of a negative extent",
        &Datatype::resized(&old, 3 * e, -2 * e)?,
        60,
        row(60, -2 * e).collect(),
    ));
    let triple = Datatype::resized(&Datatype::contiguous(3, &old)?, -e, -4 * e)?;
    let pairs = Datatype::vector(5, 2, 3, &triple)?;
    maps.push(Map::new(
        "blocks that go back within blocks that go back",
        &Datatype::resized(&pairs, 0, -60 * e)?,
        2,
        row(2, -60 * e)
            .flat_map(|start| row(5, -12 * e).map(move |block| start + block))
            .flat_map(|block| row(2, -4 * e).map(move |triple| block + triple))
            .flat_map(|triple| row(3, e).map(move |at| triple + at))
            .collect(),
    ));
    let back = Datatype::resized(&old, e, -2 * e)?;
    let listed = Datatype::indexed(&[4, 16], &[-5, 1], &back)?;
    maps.push(Map::new(
        "a list of elements of a negative extent",
        &Datatype::resized(&listed, 7 * e, 41 * e)?,
        3,
        row(3, 41 * e)
            .flat_map(|start| {
                let first = row(4, -2 * e).map(move |at| start + 10 * e + at);
                first.chain(row(16, -2 * e).map(move |at| start - 2 * e + at))
            })
            .collect(),
    ));
    Ok(maps)
}
