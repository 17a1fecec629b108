//! Registered memory, this rank's and its peers'.

pub(crate) mod columns;
pub(crate) mod control;
pub(crate) mod displacement;
pub(crate) mod in_flight;
pub(crate) mod once_table;
pub(crate) mod rank_set;
pub(crate) mod reach;
pub(crate) mod registration;
pub(crate) mod remote;
pub(crate) mod word;

#[cfg(test)]
pub(crate) mod tests {
    pub(crate) mod scripted;
}
