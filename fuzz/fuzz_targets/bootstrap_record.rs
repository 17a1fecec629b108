#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| transom::fuzzing::bootstrap_record(bytes));
