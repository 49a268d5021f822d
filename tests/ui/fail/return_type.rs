use diesel_jobs::job;

#[job]
fn number() -> i64 {
    3
}

struct Unwritable;

#[job]
async fn not_serializable() -> Result<Unwritable, std::io::Error> {
    Ok(Unwritable)
}

#[job]
fn error_of_text() -> Result<(), String> {
    Ok(())
}

#[job]
fn error_that_cannot_cross_threads() -> Result<(), Box<dyn std::error::Error>> {
    Ok(())
}

fn main() {}
