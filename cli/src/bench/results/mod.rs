//! Results of earlier runs: read, compared and drawn. What is here knows records, and nothing of how they are measured.

mod compare;
mod plot;
mod saved;

pub(super) use compare::Ratios;
pub(super) use plot::{PlotError, PlotFile};
pub(super) use saved::{Saved, SavedError};
