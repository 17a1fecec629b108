//! The parsers of outside input, for fuzzers: each function takes any bytes, and panics if the parser breaks a promise.
//! `fuzz/` calls these functions under cargo-fuzz, and the test below calls them in every run.

pub use crate::pmi::fuzzing::{pmi_lines, process_mapping};
pub use crate::rendezvous::fuzzing::{
    rendezvous_address, rendezvous_guest, rendezvous_host, rendezvous_messages,
};

#[cfg(test)]
mod tests {
    use proptest::proptest;
    use transom_testing::fuzzing::{any_bytes, damaged};

    use super::*;

    fn all(bytes: &[u8]) {
        pmi_lines(bytes);
        process_mapping(bytes);
        rendezvous_address(bytes);
        rendezvous_guest(bytes);
        rendezvous_host(bytes);
        rendezvous_messages(bytes);
    }

    /// Valid input, which the test damages.
    fn seeds() -> Vec<Vec<u8>> {
        vec![
            b"cmd=get_result rc=0 value=transom found=TRUE\ncmd=barrier_out\n".to_vec(),
            b"cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n".to_vec(),
            b"cmd=abort exitcode=7 message=a%20b\n".to_vec(),
            b"(vector,(0,2,4),(2,1,3))".to_vec(),
            b"node-7.cluster.local:4711".to_vec(),
            b"[fe80::1%2]:4711".to_vec(),
            // A rank's hello with a wrong proof. The same bytes are also a challenge.
            [
                &b"transom meeting\x03\x03\0\0\0\0\0\0\0\x07\0\0\0\0\0\0\0"[..],
                &[9; 64],
            ]
            .concat(),
            // The text of a fault.
            b"rank 3 ended while the job started, or gave up".to_vec(),
        ]
    }

    #[test]
    fn valid_input_passes() {
        seeds().iter().for_each(|seed| all(seed));
    }

    proptest! {
        #[test]
        fn any_bytes_pass(bytes in any_bytes(600)) {
            all(&bytes);
        }

        #[test]
        fn damaged_input_passes(bytes in damaged(seeds())) {
            all(&bytes);
        }
    }
}
