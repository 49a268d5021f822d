//! A new migration is a new folder. Without this line Cargo would not rebuild for it.

fn main() {
    println!("cargo::rerun-if-changed=migrations");
}
