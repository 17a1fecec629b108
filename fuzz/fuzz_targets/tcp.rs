#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| rdma_sys_shim::fuzzing::tcp(bytes));
