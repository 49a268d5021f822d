//! Runs one test of the suite in its short form, on a cluster that no other run uses meanwhile.

use std::process::{Command, Output};
use std::sync::{Mutex, PoisonError};

/// The directory of a cluster. Only one run at a time can use it.
pub(crate) struct Home {
    name: &'static str,
    lock: Mutex<()>,
}

impl Home {
    pub(crate) const fn new(name: &'static str) -> Self {
        Self { name, lock: Mutex::new(()) }
    }
}

/// Runs the suite on the first of these clusters that is free, or on the last one when it becomes free.
pub(crate) fn run_on(homes: &[Home], args: &[&str]) {
    let output = {
        let free = homes.iter().find_map(|home| Some((home, home.lock.try_lock().ok()?)));
        let (home, _mine) = free
            .or_else(|| {
                let home = homes.last()?;
                Some((home, home.lock.lock().unwrap_or_else(PoisonError::into_inner)))
            })
            .unwrap_or_else(|| panic!("no cluster is given"));
        run(home.name, args)
    };
    is_well(&output);
}

fn run(dir: &str, args: &[&str]) -> Output {
    let dir = concat!(env!("CARGO_TARGET_TMPDIR"), "/").to_owned() + dir;
    Command::new(env!("CARGO_BIN_EXE_jobs-torture"))
        .args(["--short", "--dir", &dir])
        .args(args)
        .output()
        .unwrap_or_else(|error| panic!("cannot start the suite: {error}"))
}

/// Panics if the run failed. It is called after the lock is released.
fn is_well(output: &Output) {
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{said}");
    println!("{said}");
}

/// The tests of a module, and the function that runs them.
macro_rules! short {
    ($($module:ident by $way:ident { $($claim:ident: $test:literal $($on:literal)?,)+ })+) => {
        $(mod $module {
            $(#[test] fn $claim() { super::$way(&["--test", $test $(, $on)?]); })+
        })+
    };
}
pub(crate) use short;
