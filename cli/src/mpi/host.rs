//! The MPIs that programs are built for, as the loader knows them.

use std::fmt;

/// A family of MPIs whose programs run with each other's libraries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum MpiFamily {
    /// MPICH, Intel MPI, MVAPICH and others of the same ABI
    Mpich,
    /// Open MPI
    Openmpi,
    /// Any library with the ABI of the standard, since MPI-5
    Abi,
}

impl MpiFamily {
    /// The host whose library has this name.
    pub(super) fn of_library(name: &str) -> Option<Self> {
        let all = [Self::Mpich, Self::Openmpi, Self::Abi];
        all.into_iter()
            .find(|host| host.libraries().contains(&name))
    }

    /// The names that its library may have.
    pub(super) fn libraries(self) -> &'static [&'static str] {
        match self {
            Self::Mpich => &["libmpi.so.12", "libmpich.so.12"],
            Self::Openmpi => &["libmpi.so.40"],
            Self::Abi => &["libmpi_abi.so.1", "libmpi_abi.so.0"],
        }
    }

    /// The name of Transom's library for it.
    pub(super) fn ours(self) -> &'static str {
        match self {
            Self::Mpich => "libtransom_mpi_mpich.so",
            Self::Openmpi => "libtransom_mpi_openmpi.so",
            Self::Abi => "libtransom_mpi_abi.so",
        }
    }
}

impl fmt::Display for MpiFamily {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Mpich => "MPICH or Intel MPI",
            Self::Openmpi => "Open MPI",
            Self::Abi => "the ABI of MPI-5",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_of_one_host() {
        assert_eq!(
            MpiFamily::of_library("libmpich.so.12"),
            Some(MpiFamily::Mpich)
        );
        assert_eq!(
            MpiFamily::of_library("libmpi.so.12"),
            Some(MpiFamily::Mpich)
        );
        assert_eq!(
            MpiFamily::of_library("libmpi.so.40"),
            Some(MpiFamily::Openmpi)
        );
        assert_eq!(
            MpiFamily::of_library("libmpi_abi.so.1"),
            Some(MpiFamily::Abi)
        );
        assert_eq!(MpiFamily::of_library("libmpi_mpifh.so.40"), None);
    }
}
