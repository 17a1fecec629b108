//! Ranks that nobody started together: processes of this binary, which meet over TCP.

mod meetings;
mod rank;
mod refusals;
mod started;

use transom_testing::devices::{devices, is_adversarial};
use transom_testing::environment;
use transom_testing::launcher;
use transom_testing::suite::Suite;

fn main() {
    launcher::take_over();
    if let Some(role) = environment::case() {
        return rank::play(&role);
    }
    let mut suite = Suite::new("rendezvous");
    for device in devices() {
        for trial in meetings::trials(device) {
            suite.push(device, trial);
        }
        // Many at once take long where each access is an operation, and meet no other code there.
        if device == "soft" || is_adversarial(device) {
            suite.push(device, meetings::of_many(device));
        }
    }
    for trial in refusals::trials() {
        suite.always(trial);
    }
    suite.run()
}
