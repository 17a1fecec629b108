//! Columns of an exchanged table: one value for each rank, stored once where all are equal.

/// One value for each rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Column<T> {
    /// The same on every rank.
    Uniform(T),
    PerRank(Box<[T]>),
}

impl<T: Copy + PartialEq> Column<T> {
    /// `values` holds at least one value.
    pub(crate) fn new(values: impl ExactSizeIterator<Item = T> + Clone) -> Self {
        let mut all = values.clone();
        match all.next() {
            Some(first) if all.all(|value| value == first) => Self::Uniform(first),
            _ => Self::PerRank(values.collect()),
        }
    }

    /// The memory that the values of `ranks` ranks take, if they differ.
    pub(crate) const fn bytes(ranks: u32) -> u64 {
        ranks as u64 * size_of::<T>() as u64
    }

    pub(crate) fn get(&self, rank: u32) -> T {
        match self {
            Self::Uniform(value) => *value,
            Self::PerRank(values) => values[rank as usize],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_are_stored_once() {
        assert_eq!(Column::new([7, 7, 7].into_iter()), Column::Uniform(7));
        let mixed = Column::new([7, 8, 7].into_iter());
        assert!(matches!(mixed, Column::PerRank(_)));
        assert_eq!([0, 1, 2].map(|rank| mixed.get(rank)), [7, 8, 7]);
        assert_eq!(Column::new([9].into_iter()).get(0), 9);
    }
}
