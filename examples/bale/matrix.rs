//! Sparse matrices, whose rows are dealt to the ranks one by one, and their transposes.

use transom::{Communicator, Op, Session, Window};
use transom_collections::{DistArray, Distribution, Result};

use crate::random::{Random, mix};
use crate::{Done, ENTRIES, check, sum, timed};

/// The rows `rank`, `rank + ranks`, … of a square matrix: for each, the columns of its entries.
pub(crate) struct Rows {
    /// Where each row begins among the columns, and where the last one ends.
    pub(crate) begins: Vec<usize>,
    pub(crate) columns: Vec<usize>,
}

impl Rows {
    pub(crate) fn new() -> Self {
        Self {
            begins: vec![0],
            columns: Vec::new(),
        }
    }

    /// A row with each of these columns once.
    pub(crate) fn push(&mut self, columns: impl IntoIterator<Item = usize>) {
        let begin = self.columns.len();
        for column in columns {
            if !self.columns[begin..].contains(&column) {
                self.columns.push(column);
            }
        }
        self.begins.push(self.columns.len());
    }

    /// Each row with its columns.
    pub(crate) fn each(&self) -> impl Iterator<Item = &[usize]> {
        (self.begins.windows(2)).map(|ends| &self.columns[ends[0]..ends[1]])
    }
}

/// A transposed matrix, which all ranks may read.
pub(crate) struct Transposed {
    /// Of row `i`: where it begins in its rank's part of `columns`.
    pub(crate) begins: DistArray<u64>,
    /// Of row `i`: how many entries it has.
    pub(crate) counts: DistArray<u64>,
    /// Rows as they are in the parts of their ranks.
    pub(crate) columns: Session<'static, u64>,
}

impl Transposed {
    pub(crate) fn free(self) -> Result<()> {
        self.columns.free()?;
        self.counts.free()?;
        self.begins.free()
    }
}

/// Collective. `rows` of each rank. Entries come in any order.
pub(crate) fn transposed(comm: &Communicator, rows: usize, of: &Rows) -> Result<Transposed> {
    let (rank, ranks) = (comm.rank() as usize, comm.size() as usize);
    let all = rows * ranks;
    let ones = vec![1; of.columns.len()];
    let mut counts = DistArray::<u64>::new(comm, all, Distribution::Cyclic)?;
    counts.accumulate_indexed(Op::Sum, &of.columns, &ones)?;

    let mut begins = Vec::with_capacity(rows);
    let mut end = 0;
    counts.with_own(|own| {
        for count in own {
            begins.push(end);
            end += *count;
        }
    })?;
    let columns = Window::<u64>::allocate(comm, end as usize)?
        .into_owned()
        .into_session()?;
    let mut of_row = begins.iter();
    let begins = DistArray::from_fn(comm, all, Distribution::Cyclic, |_| *of_row.next().unwrap())?;

    // Entries draw their places from counters, one for each row of the result.
    let next = DistArray::from_fn(comm, all, Distribution::Cyclic, |_| 0)?;
    let drawn = next.get_accumulate_indexed(Op::Sum, &of.columns, &ones)?;
    let first = begins.get_indexed(&of.columns)?;
    let places: Vec<(u32, usize)> = (of.columns.iter().zip(first).zip(drawn))
        .map(|((column, first), drawn)| ((column % ranks) as u32, (first + drawn) as usize))
        .collect();
    let entries: Vec<u64> = (0..)
        .zip(of.each())
        .flat_map(|(row, columns)| columns.iter().map(move |_| (row * ranks + rank) as u64))
        .collect();
    columns.put_indexed(&places, &entries)?;
    comm.barrier()?;
    next.free()?;
    Ok(Transposed {
        begins,
        counts,
        columns,
    })
}

pub(crate) fn transpose(comm: &Communicator, elements: usize) -> Result<Done> {
    let (rank, ranks) = (comm.rank() as usize, comm.size() as usize);
    let rows = elements / ENTRIES;
    let mut random = Random::of(comm.rank());
    let mut matrix = Rows::new();
    for _ in 0..rows {
        let columns: Vec<usize> = (0..ENTRIES).map(|_| random.below(rows * ranks)).collect();
        matrix.push(columns);
    }

    let (result, seconds) = timed(comm, || transposed(comm, rows, &matrix))?;

    // Of each entry: its row and column, mixed.
    let entry = |row: usize, column: usize| mix(mix(row as u64).wrapping_add(column as u64));
    let mut wanted = 0_u64;
    for (row, columns) in matrix.each().enumerate() {
        for &column in columns {
            wanted = wanted.wrapping_add(entry(row * ranks + rank, column));
        }
    }
    let (mut found, mut entries) = (0_u64, 0);
    for row in result.begins.own_indices() {
        let (begin, count) = (result.begins.get(row)?, result.counts.get(row)?);
        entries += count;
        for column in result
            .columns
            .get_vec(comm.rank(), begin as usize, count as usize)?
        {
            found = found.wrapping_add(entry(column as usize, row));
        }
    }
    let operations = sum(comm, matrix.columns.len() as u64)?;
    let is_right = sum(comm, entries)? == operations && sum(comm, found)? == sum(comm, wanted)?;
    check(comm, is_right, "an entry")?;
    result.free()?;
    Ok(Done {
        operations,
        seconds,
    })
}
