#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| transom_launch::fuzzing::rendezvous_address(bytes));
