//! A matrix that permutations of rows and columns made of an upper triangular one: finds such permutations.

use transom::{Communicator, Op};
use transom_collections::{DistArray, Distribution, Result};

use crate::kernels::permute;
use crate::matrix::{Rows, Transposed, transposed};
use crate::random::Random;
use crate::{Done, ENTRIES, check, sum, sum_before, timed};

/// The entries of a row in columns that have no place yet, in one word: their number, and the sum of their columns.
const COUNT_AT: u32 = 40;

fn entry(column: u64) -> u64 {
    (1 << COUNT_AT) + column
}

/// The column of a row's last entry.
fn last_of(word: u64) -> Option<u64> {
    (word >> COUNT_AT == 1).then_some(word & ((1 << COUNT_AT) - 1))
}

/// Collective. A triangular matrix with a full diagonal, whose rows and columns are permuted.
fn hidden_triangle(comm: &Communicator, random: &mut Random, rows: usize) -> Result<Rows> {
    let (rank, ranks) = (comm.rank() as usize, comm.size() as usize);
    let all = rows * ranks;
    let mut whole = || -> Result<Vec<u64>> {
        let (permutation, _seconds) = permute(comm, random, rows)?;
        let whole = permutation.to_vec()?;
        permutation.free()?;
        Ok(whole)
    };
    let (of_row, to) = (whole()?, whole()?);
    let mut matrix = Rows::new();
    for own in 0..rows {
        let row = of_row[own * ranks + rank] as usize;
        let mut columns = vec![to[row] as usize];
        if row + 1 < all {
            let others = (1..ENTRIES).map(|_| to[row + 1 + random.below(all - row - 1)] as usize);
            columns.extend(others);
        }
        matrix.push(columns);
    }
    Ok(matrix)
}

/// Places of rows and of columns.
struct Places {
    of_rows: DistArray<u64>,
    of_columns: DistArray<u64>,
}

/// Collective. A row with one entry left gets the last place that is free, and so does the column of this entry; then other
/// rows have an entry less. The rank that takes a row's last but one entry has that row in its next round.
fn sort(comm: &Communicator, matrix: &Rows, columns: &Transposed) -> Result<Places> {
    let (rank, ranks) = (comm.rank() as usize, comm.size() as usize);
    let all = columns.begins.len();
    let words: Vec<u64> = (matrix.each())
        .map(|row| row.iter().map(|&column| entry(column as u64)).sum())
        .collect();
    let left = DistArray::from_fn(comm, all, Distribution::Cyclic, |index| {
        words[index / ranks]
    })?;
    let places = Places {
        of_rows: DistArray::new(comm, all, Distribution::Cyclic)?,
        of_columns: DistArray::new(comm, all, Distribution::Cyclic)?,
    };
    let mut due: Vec<(usize, usize)> = (0..)
        .zip(&words)
        .filter_map(|(own, &word)| Some((own * ranks + rank, last_of(word)? as usize)))
        .collect();
    let mut free = all as u64;
    loop {
        let mine = due.len() as u64;
        let total = sum(comm, mine)?;
        if total == 0 {
            break;
        }
        let first = free - sum_before(comm, mine)? - mine;
        free -= total;
        let (due_rows, due_columns): (Vec<usize>, Vec<usize>) = due.iter().copied().unzip();
        let numbers: Vec<u64> = (first..first + mine).collect();
        places.of_rows.put_indexed(&due_rows, &numbers)?;
        places.of_columns.put_indexed(&due_columns, &numbers)?;

        // The rows that have an entry in these columns, all of them in one list.
        let begins = columns.begins.get_indexed(&due_columns)?;
        let counts = columns.counts.get_indexed(&due_columns)?;
        let mut rows = vec![0; counts.iter().sum::<u64>() as usize];
        columns.columns.batch(|batch| {
            let mut rest = &mut rows[..];
            for ((column, begin), &count) in due_columns.iter().zip(begins).zip(&counts) {
                let (run, behind) = rest.split_at_mut(count as usize);
                batch.target(column % ranks)?.get(begin as usize, run)?;
                rest = behind;
            }
            Ok(())
        })?;
        let rows: Vec<usize> = rows.into_iter().map(|row| row as usize).collect();
        let less: Vec<u64> = (due_columns.iter().zip(&counts))
            .flat_map(|(&column, &count)| {
                (0..count).map(move |_| entry(column as u64).wrapping_neg())
            })
            .collect();
        let before = left.get_accumulate_indexed(Op::Sum, &rows, &less)?;
        due = (rows.into_iter().zip(before).zip(less))
            .filter_map(|((row, before), less)| {
                Some((row, last_of(before.wrapping_add(less))? as usize))
            })
            .collect();
    }
    assert_eq!(free, 0, "each row has a place");
    left.free()?;
    Ok(places)
}

pub(crate) fn toposort(comm: &Communicator, elements: usize) -> Result<Done> {
    let (rank, ranks) = (comm.rank() as usize, comm.size() as usize);
    let rows = elements / ENTRIES;
    let mut random = Random::of(comm.rank());
    let matrix = hidden_triangle(comm, &mut random, rows)?;
    let columns = transposed(comm, rows, &matrix)?;

    let (places, seconds) = timed(comm, || sort(comm, &matrix, &columns))?;

    let of_columns = places.of_columns.to_vec()?;
    let of_rows = places.of_rows.to_vec()?;
    for places in [&of_rows, &of_columns] {
        let mut sorted = places.clone();
        sorted.sort_unstable();
        let is_permutation = sorted.iter().copied().eq(0..places.len() as u64);
        check(comm, is_permutation, "a place that is taken twice")?;
    }
    let is_triangular = matrix.each().enumerate().all(|(own, row)| {
        let place = of_rows[own * ranks + rank];
        row.iter().all(|&column| place <= of_columns[column])
    });
    check(comm, is_triangular, "an entry below the diagonal")?;
    places.of_rows.free()?;
    places.of_columns.free()?;
    columns.free()?;
    let operations = sum(comm, matrix.columns.len() as u64)?;
    Ok(Done {
        operations,
        seconds,
    })
}
