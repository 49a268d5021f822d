use diesel_jobs::job;

#[job]
fn number() -> i64 {
    3
}

#[job]
async fn number_later() -> Result<i64, std::io::Error> {
    Ok(3)
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
