//! A new migration is a new folder, which the compiler would not notice by itself.

fn main() {
    println!("cargo::rerun-if-changed=migrations");
}
