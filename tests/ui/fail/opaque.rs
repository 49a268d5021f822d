use diesel_jobs::job;

#[job]
fn argument(name: impl Into<String>) {
    let _ = name;
}

#[job]
fn inside(names: Vec<impl Into<String>>) {
    let _ = names;
}

#[job]
fn answer() -> Result<(), impl std::error::Error> {
    Ok::<(), std::io::Error>(())
}

#[job]
fn never() -> ! {
    loop {}
}

fn main() {}
