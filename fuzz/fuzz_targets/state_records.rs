//! Decoding a record of the state file from arbitrary bytes never panics, and a decoded record survives encoding.
#![no_main]

use crawler::internal::fuzzing;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| fuzzing::check_state_records(input));
